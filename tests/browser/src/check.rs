//! What is wrong with a page, in sentences. Nothing is wrong if there is none.

use crate::page::Page;

/// axe-core 4.14.1, under the Mozilla Public License 2.0. It is part of the tests alone.
const AXE: &str = include_str!("../assets/axe.min.js");
/// The rules of WCAG 2.2 at the levels A and AA, and of the versions before.
const RULES: &str = "['wcag2a','wcag2aa','wcag21a','wcag21aa','wcag22aa']";

/// Everything that is looked at on every screen. `origin`: where all that it loads must come from.
pub async fn all(page: &mut Page, origin: &str) -> Vec<String> {
    page.catch_up();
    // first of all: what follows runs scripts of its own
    let mut found = page.problems.clone();
    found.extend(elsewhere(page, origin));
    found.extend(too_wide(page).await);
    found.extend(axe(page).await);
    found
}

/// What it asked another host for.
pub fn elsewhere(page: &Page, origin: &str) -> Vec<String> {
    let is_here = |url: &&String| url.strip_prefix(origin).is_some_and(|rest| rest.starts_with('/'));
    page.requests.iter().filter(|url| !is_here(url)).map(|url| format!("it asks for {url}")).collect()
}

/// Whether the page as a whole scrolls sideways.
pub async fn too_wide(page: &Page) -> Vec<String> {
    let width = page.eval("document.documentElement.scrollWidth").await.as_u64().expect("a number");
    let is_wide = width > u64::from(page.look.width);
    is_wide.then(|| format!("it is {width} pixels wide on {}", page.look.width)).into_iter().collect()
}

/// More requests than there may be.
pub fn too_many(requests: usize, most: usize) -> Vec<String> {
    (requests > most).then(|| format!("{requests} requests, not {most}")).into_iter().collect()
}

/// What axe-core finds. It runs in a world of its own, so the page's content policy stays as it is.
pub async fn axe(page: &Page) -> Vec<String> {
    let world = page.isolated().await;
    page.eval_in(Some(&world), &format!("{AXE}\n;0")).await;
    let run = format!(
        "axe.run(document, {{ runOnly: {{ type: 'tag', values: {RULES} }}, resultTypes: ['violations'] }})
            .then(found => found.violations.flatMap(rule => rule.nodes.map(node =>
                `${{rule.id}}: ${{node.failureSummary}} ${{node.html.slice(0, 200)}}`)))"
    );
    let found = page.eval_in(Some(&world), &run).await;
    let found = found.as_array().expect("a list of violations");
    found.iter().map(|it| it.as_str().unwrap_or_default().to_owned()).collect()
}
