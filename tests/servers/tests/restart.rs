//! A server of one's own survives being killed and stopped.

use std::net::TcpStream;

use queue_test_servers::{Durability, Engine, Server, Settings, process};

/// The engines whose programs are there, which the variables of `cargo xtask test` say.
fn engines() -> impl Iterator<Item = Engine> {
    Engine::all().into_iter().filter(|engine| engine.is_selected() && engine.url().is_some())
}

fn accepts(server: &Server) -> bool {
    TcpStream::connect(("127.0.0.1", server.port())).is_ok()
}

#[test]
fn it_comes_back_on_its_data_and_its_port() {
    std::thread::scope(|scope| engines().for_each(|engine| drop(scope.spawn(move || comes_back(engine)))));
}

fn comes_back(engine: Engine) {
    let mut server = Server::start(engine, &Settings::new(Durability::Process)).expect("started");
    let (url, first) = (server.url(), server.pid().expect("a process"));
    assert!(accepts(&server), "{engine}");
    server.kill().expect("killed");
    assert!(!process::is_alive(first) && !accepts(&server), "{engine} is still there");
    server.kill().expect_err("it does not run any more");

    server.start_again().expect("started again");
    assert!(accepts(&server) && server.url() == url && server.pid() != Some(first), "{engine}");
    server.start_again().expect_err("it runs already");
    server.stop().expect("stopped");
    assert!(!accepts(&server), "{engine} is still there");
    server.start_again().expect("started after a stop");

    let data = server.data();
    assert!(data.is_dir());
    drop(server);
    assert!(!data.exists(), "{engine} leaves its data behind");
}
