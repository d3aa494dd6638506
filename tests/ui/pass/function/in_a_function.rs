#![deny(warnings)]

fn main() {
    #[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
    struct Local(u32);

    #[queue::job]
    async fn inside(local: Local, n: u32) {
        let _ = (local.0, n);
    }

    fn deeper() -> &'static str {
        #[queue::job(name = "deeper_inside")]
        async fn inside(n: u32) {
            let _ = n;
        }
        let _ = Inside::new(1);
        <Inside as queue::Job>::KIND
    }

    let json = serde_json::to_string(&Inside::new(Local(1), 2)).unwrap();
    assert_eq!(json, r#"{"local":1,"n":2}"#);
    assert_eq!(deeper(), "deeper_inside");
}
