//! Visits every state that can be reached, breadth first, so that a counterexample is as short as can be.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use crate::rules::{Promise, Rules, Violation};

/// A world that is searched: how large it is, which rules hold, and which broken promise is looked for.
pub trait Model: Clone {
    /// A state.
    type State;
    /// Something that happens.
    type Step;
    /// The same without some rules, to look for one broken promise.
    fn with(&self, rules: Rules, only: Promise) -> Self;
    /// Whether this is a broken promise that is looked for.
    fn seeks(&self, promise: Promise) -> bool;
    /// The state in which all begins.
    fn first(&self) -> Self::State;
    /// All that can happen in a state.
    fn steps(&self, state: &Self::State) -> Vec<Self::Step>;
    /// The state after a step, or the promise that it breaks.
    fn after(&self, state: &Self::State, step: &Self::Step) -> Result<Self::State, Violation>;
    /// Whether a step needs no bad luck: when nothing goes wrong any more, it still happens.
    fn is_progress(&self, step: &Self::Step) -> bool;
    /// A job that is not over. None: all is over.
    fn open(&self, state: &Self::State) -> Option<usize>;
    /// The same for states that behave alike.
    fn key(&self, state: &Self::State) -> Box<[u8]>;
    /// What happens, as a sentence.
    fn tell(&self, state: &Self::State, step: &Self::Step) -> String;
}

/// What the search found.
#[derive(Debug)]
pub enum Found {
    /// Every promise holds in so many states.
    Sound {
        /// Different ones, after symmetry.
        states: usize,
        /// From one to another.
        transitions: usize,
    },
    /// A promise is broken.
    Broken(Story),
}

/// How a promise comes to be broken.
#[derive(Debug)]
pub struct Story {
    /// What happens, in order, as sentences.
    pub lines: Vec<String>,
    /// What is wrong in the end.
    pub violation: Violation,
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, line) in (1..).zip(&self.lines) {
            writeln!(f, "{number:>3}. {line}")?;
        }
        write!(f, "  => {}", self.violation)
    }
}

struct Node {
    parent: u32,
    /// Which of the parent's steps.
    step: u16,
    over: bool,
}

/// A search under way.
struct Search<'a, M> {
    model: &'a M,
    seen: HashMap<Box<[u8]>, u32>,
    nodes: Vec<Node>,
    /// Steps that need no bad luck, from and to.
    progress: Vec<(u32, u32)>,
}

/// Searches for a broken promise.
pub fn search<M: Model>(model: &M) -> Found {
    let mut search = Search { model, seen: HashMap::new(), nodes: Vec::new(), progress: Vec::new() };
    let mut open = VecDeque::new();
    let first = model.first();
    search.visit(&first, 0, 0);
    open.push_back((0, first));
    let mut transitions = 0;
    while let Some((from, world)) = open.pop_front() {
        for (at, step) in (0..).zip(model.steps(&world)) {
            transitions += 1;
            match model.after(&world, &step) {
                Err(violation) if model.seeks(violation.promise) => {
                    return Found::Broken(search.story(from, Some(&step), violation));
                }
                // another promise was broken on the way: not what is looked for
                Err(_) => {}
                Ok(next) => {
                    let (to, new) = search.visit(&next, from, at);
                    if model.is_progress(&step) {
                        search.progress.push((from, to));
                    }
                    if new {
                        open.push_back((to, next));
                    }
                }
            }
        }
    }
    if model.seeks(Promise::EveryJobEnds)
        && let Some(stuck) = search.stuck()
    {
        let world = search.worlds(stuck).pop().map(|(_, world)| world);
        let job = world.and_then(|world| model.open(&world));
        let violation = Violation::new(Promise::EveryJobEnds, job.unwrap_or_default());
        return Found::Broken(search.story(stuck, None, violation));
    }
    Found::Sound { states: search.nodes.len(), transitions }
}

impl<M: Model> Search<'_, M> {
    /// The state's place, and whether it is new.
    fn visit(&mut self, world: &M::State, parent: u32, step: u16) -> (u32, bool) {
        let next = u32::try_from(self.nodes.len()).expect("fewer states than 2^32");
        let place = *self.seen.entry(self.model.key(world)).or_insert(next);
        if place == next {
            self.nodes.push(Node { parent, step, over: self.model.open(world).is_none() });
        }
        (place, place == next)
    }

    /// The first state from which no state can be reached any more, without bad luck, in which all jobs are over.
    fn stuck(&self) -> Option<u32> {
        let mut ends: Vec<bool> = self.nodes.iter().map(|node| node.over).collect();
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); self.nodes.len()];
        for (from, to) in &self.progress {
            into[*to as usize].push(*from);
        }
        let over = (0..).zip(&ends).filter(|(_, over)| **over).map(|(place, _)| place);
        let mut open: Vec<u32> = over.collect();
        while let Some(place) = open.pop() {
            for from in &into[place as usize] {
                if !std::mem::replace(&mut ends[*from as usize], true) {
                    open.push(*from);
                }
            }
        }
        (0..).zip(&ends).find(|(_, ends)| !**ends).map(|(place, _)| place)
    }

    /// The way to a state: each step with the state that it starts from, and the state itself.
    fn worlds(&self, place: u32) -> Vec<(Option<M::Step>, M::State)> {
        let mut way = Vec::new();
        let mut at = place;
        while at != 0 {
            way.push(self.nodes[at as usize].step);
            at = self.nodes[at as usize].parent;
        }
        let mut world = self.model.first();
        let mut worlds = Vec::new();
        for step in way.into_iter().rev() {
            let step = self.model.steps(&world).swap_remove(usize::from(step));
            let next = self.model.after(&world, &step).expect("a step that was taken before");
            worlds.push((Some(step), std::mem::replace(&mut world, next)));
        }
        worlds.push((None, world));
        worlds
    }

    fn story(&self, place: u32, last: Option<&M::Step>, violation: Violation) -> Story {
        let mut lines = Vec::new();
        for (step, world) in self.worlds(place) {
            if let Some(step) = step.as_ref().or(last) {
                lines.push(self.model.tell(&world, step));
            }
        }
        Story { lines, violation }
    }
}
