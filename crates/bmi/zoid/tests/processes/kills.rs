//! `kill -9` of any process amid traffic: after the next start or a cleanup nothing of the instance is left,
//! and the next run works.
//!
//! Queues are counted by how many can still be created, because the file system that lists them may not be
//! mounted.

use sys::{MessageQueue, QueueAccess, QueueShape};
use testkit::QueueTurn;

use crate::scene::{Process, Scene, is_long};

/// The shape of reply queues.
const REPLIES: QueueShape = QueueShape {
    messages: 2,
    message_bytes: 4096,
};

/// Returns the number of queues that this user can still create.
pub(crate) fn queues_left() -> usize {
    let name = |number: usize| format!("/zoid-count.{}.{number}", std::process::id());
    let make = |number| MessageQueue::create(&name(number), QueueAccess::Receive, REPLIES).ok();
    let made: Vec<_> = (0..).map_while(make).collect();
    for number in 0..made.len() {
        sys::unlink_queue(&name(number)).unwrap();
    }
    made.len()
}

/// Returns what is left of an instance: whether there is a segment, and the files of its directory. If shared
/// memory can be listed, checks that no other object has the instance's name.
fn left_behind(scene: &Scene) -> (bool, Vec<String>) {
    let segment = sys::SharedMemory::open(&scene.instance.segment()).is_ok();
    let listed = std::fs::read_dir("/dev/shm").into_iter().flatten();
    let objects = listed.filter_map(|file| file.ok()?.file_name().into_string().ok());
    let name = scene.instance.to_string();
    let mut of_instance = objects.filter(|object| object.contains(&name));
    assert_eq!(
        of_instance.next(),
        segment.then(|| scene.instance.segment()[1..].to_owned())
    );
    assert_eq!(of_instance.next(), None);
    let files = std::fs::read_dir(scene.directory.path()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    (segment, names.collect())
}

/// Starts a server and two clients that exchange messages, with reply queues in use.
fn run(scene: &Scene) -> [Process; 3] {
    let mut server = scene.server();
    server.tell("echo");
    let mut clients = [scene.client(), scene.client()];
    for client in &mut clients {
        assert_eq!(client.ask("exchange 1 100"), "done");
        for tag in 2..6 {
            client.tell(&format!("exchange {tag} 8000"));
        }
    }
    let [one, two] = clients;
    [server, one, two]
}

// [DEATH-43]
#[test]
fn kill_9_of_any_party_leaves_nothing() {
    let mut scene = Scene::new();
    scene.daemon.end();
    assert_eq!(left_behind(&scene), (false, Vec::new()));
    let all = queues_left();
    let rounds = if is_long() { 100 } else { 5 };
    for round in 0..rounds {
        scene.restart();
        let [mut server, mut client, mut bystander] = run(&scene);
        match round % 5 {
            0 => client.kill(),
            1 => server.kill(),
            2 => scene.daemon.kill(),
            3 => {
                server.kill();
                scene.daemon.kill();
            }
            _ => {
                scene.daemon.kill();
                client.kill();
                server.kill();
            }
        }
        survivors_work(&mut scene, round, &mut server, &mut bystander);
        server.kill();
        client.kill();
        bystander.kill();
        scene.daemon.kill();
        let directory = Some(scene.directory.path());
        let removed = zoidd::cleanup(&scene.instance, directory).unwrap();
        assert!(removed.queues > 0 && removed.segments == 1, "{removed:?}");
        assert_eq!(left_behind(&scene), (false, Vec::new()), "round {round}");
        assert_eq!(queues_left(), all, "round {round}");
    }
}

/// Checks that the survivors work with the replacement of the killed process.
fn survivors_work(scene: &mut Scene, round: usize, server: &mut Process, bystander: &mut Process) {
    match round % 5 {
        0 => assert_eq!(bystander.ask("exchange 9 1000"), "done"),
        1 => {
            *server = scene.server();
            server.tell("echo");
            assert_eq!(scene.client().ask("exchange 9 1000"), "done");
        }
        2 => {
            scene.restart();
            // The surviving server serves the new daemon.
            assert_eq!(scene.client().ask("exchange 9 1000"), "done");
        }
        _ => {
            scene.restart();
            *server = scene.server();
            server.tell("echo");
            assert_eq!(scene.client().ask("exchange 9 1000"), "done");
        }
    }
}

// [DEATH-42]
#[test]
fn a_daemon_started_after_kills_removes_what_they_left() {
    let mut scene = Scene::new();
    let all = queues_left();
    for _ in 0..3 {
        let [mut server, mut one, mut two] = run(&scene);
        for process in [&mut scene.daemon, &mut server, &mut one, &mut two] {
            process.kill();
        }
        scene.restart();
        assert_eq!(queues_left(), all);
    }
}

#[test]
fn a_queue_that_is_left_is_counted() {
    let _turn = QueueTurn::take();
    let all = queues_left();
    let name = format!("/zoid-left.{}", std::process::id());
    let queue = MessageQueue::create(&name, QueueAccess::Receive, REPLIES).unwrap();
    assert_eq!(queues_left(), all - 1);
    drop(queue);
    sys::unlink_queue(&name).unwrap();
    assert_eq!(queues_left(), all);
}
