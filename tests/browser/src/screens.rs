//! Every screen of the dashboard.

use queue::JobId;

use crate::world::World;

/// A screen, by its name in lists and in files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen {
    /// Such as `overview`.
    pub name: &'static str,
    /// Behind the address of the dashboard.
    pub path: String,
    /// The number of the answer. The console tells of those above 399.
    pub status: u16,
}

/// All of them, in a filled world.
pub fn screens(world: &World) -> Vec<Screen> {
    let screen = |name, path: String| Screen { name, path, status: 200 };
    let World { dead, running, retrying, unique, completed, cancelled, operations: [runs, done] } = world;
    vec![
        screen("overview", String::new()),
        screen("overview-week", "?range=7d".to_owned()),
        screen("failures", "failures".to_owned()),
        screen("jobs", "jobs".to_owned()),
        screen("jobs-dead", "jobs?q=state:dead+kind:send_invoice&done=send_back.2".to_owned()),
        screen("jobs-unclear", "jobs?q=stat:dead".to_owned()),
        screen("jobs-none", "jobs?q=kind:send_invoise".to_owned()),
        screen("job-dead", format!("jobs/{dead}")),
        screen("job-running", format!("jobs/{running}")),
        screen("job-retrying", format!("jobs/{retrying}")),
        screen("job-unique", format!("jobs/{unique}")),
        screen("job-completed", format!("jobs/{completed}")),
        screen("job-cancelled", format!("jobs/{cancelled}")),
        screen("edit", format!("jobs/{dead}/edit")),
        screen("edit-json", format!("jobs/{dead}/edit?as=json")),
        screen("plan-first", "plan?do=send_back&first=1&q=state:dead+kind:send_invoice&from=failures".to_owned()),
        screen("plan-delete", format!("plan?do=delete&id={dead}&from=jobs")),
        screen("queues", "queues".to_owned()),
        screen("workers", "workers".to_owned()),
        screen("schedules", "schedules".to_owned()),
        screen("operations", "operations".to_owned()),
        screen("operation-running", format!("operations/{runs}")),
        screen("operation-refused", format!("operations/{done}")),
        screen("enqueue", format!("enqueue?copy={dead}")),
        screen("keys", "keys".to_owned()),
        Screen { name: "not-found", path: "jobs/999999999".to_owned(), status: 404 },
    ]
}

/// Those that show a job whose texts want to be more than text.
pub fn hostile_screens(id: JobId) -> [Screen; 3] {
    let paths = [
        ("hostile-job", format!("jobs/{id}")),
        ("hostile-edit", format!("jobs/{id}/edit")),
        ("hostile-jobs", "jobs?q=state:dead".to_owned()),
    ];
    paths.map(|(name, path)| Screen { name, path, status: 200 })
}
