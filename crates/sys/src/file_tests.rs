//! What other users planted is neither followed nor opened. Root plants it in the name of another user, so
//! these parts of the tests need root.

use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::UnixListener;

use super::*;

const STRANGER: Option<u32> = Some(1002);

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn kind<T>(result: io::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

/// A directory of one test, removed at its end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sys-{name}-{}", std::process::id()));
        let _older = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        mode(&path, 0o755);
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn a_directory_that_others_can_write_enter_or_replace_is_refused() {
    let place = Place::new("own");
    let path = place.path("state");
    assert_eq!(kind(own_directory(&path, 0o077)), Some(ErrorKind::NotFound));
    fs::create_dir(&path).unwrap();
    mode(&path, 0o700);
    own_directory(&path, 0o077).unwrap();
    mode(&path, 0o750);
    own_directory(&path, 0o022).unwrap();
    assert_eq!(
        kind(own_directory(&path, 0o077)),
        Some(ErrorKind::PermissionDenied)
    );
    mode(&path, 0o770);
    assert_eq!(
        kind(own_directory(&path, 0o022)),
        Some(ErrorKind::PermissionDenied)
    );
    mode(&path, 0o700);
    for link in ["link", "link/"] {
        let _older = fs::remove_file(place.path("link"));
        symlink(&path, place.path("link")).unwrap();
        assert!(own_directory(&place.path(link), 0o022).is_err(), "{link}");
    }
    fs::write(place.path("file"), "").unwrap();
    assert!(own_directory(&place.path("file"), 0o022).is_err());
    mode(&place.0, 0o777);
    assert_eq!(
        kind(own_directory(&path, 0o022)),
        Some(ErrorKind::PermissionDenied)
    );
    assert_eq!(
        kind(require_trusted_parent(&path)),
        Some(ErrorKind::PermissionDenied)
    );
    mode(&place.0, 0o1777);
    own_directory(&path, 0o022).unwrap();
    require_trusted_parent(&path).unwrap();
}

#[test]
fn a_directory_of_another_user_is_refused() {
    if !geteuid().is_root() {
        return;
    }
    let place = Place::new("foreign");
    let path = place.path("state");
    fs::create_dir(&path).unwrap();
    chown(&path, STRANGER, None).unwrap();
    assert_eq!(
        kind(own_directory(&path, 0o022)),
        Some(ErrorKind::PermissionDenied)
    );
    fs::create_dir(path.join("below")).unwrap();
    assert_eq!(
        kind(own_directory(&path.join("below"), 0o022)),
        Some(ErrorKind::PermissionDenied)
    );
    assert_eq!(
        kind(require_trusted_parent(&path.join("socket"))),
        Some(ErrorKind::PermissionDenied)
    );
}

#[test]
fn a_file_is_written_through_an_own_link_and_not_through_one_of_another_user() {
    let place = Place::new("links");
    let (victim, link) = (place.path("victim"), place.path("link"));
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, &link).unwrap();
    write_file(&link, "mine").unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    write_file(Path::new("/dev/null"), "x").unwrap();
    if !geteuid().is_root() {
        return;
    }
    for (owner, permissions) in [(None, 0o777), (None, 0o1777), (STRANGER, 0o755)] {
        fs::write(&victim, "precious").unwrap();
        mode(&place.0, permissions);
        chown(&place.0, owner.or(Some(0)), None).unwrap();
        lchown(&link, STRANGER, None).unwrap();
        assert_eq!(
            kind(write_file(&link, "x")),
            Some(ErrorKind::PermissionDenied)
        );
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }
    replace_file(&link, "replaced").unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(fs::read_to_string(&link).unwrap(), "replaced");
}

#[test]
fn a_pipe_or_a_socket_does_not_hold_a_writer() {
    let place = Place::new("pipes");
    let (pipe, socket) = (place.path("pipe"), place.path("socket"));
    nix::unistd::mkfifo(&pipe, Mode::from_bits_truncate(0o666)).unwrap();
    // Nobody reads, so opening must not wait.
    create_file(&pipe).unwrap_err();
    let _listener = UnixListener::bind(&socket).unwrap();
    create_file(&socket).unwrap_err();
    if geteuid().is_root() {
        chown(&pipe, STRANGER, None).unwrap();
        let _reader = without_following(OpenOptions::new().read(true))
            .open(&pipe)
            .unwrap();
        assert_eq!(kind(create_file(&pipe)), Some(ErrorKind::PermissionDenied));
    }
}

#[test]
fn a_file_is_replaced_and_whatever_lies_beside_it_is_removed_and_not_followed() {
    let place = Place::new("replace");
    let (victim, path) = (place.path("victim"), place.path("users"));
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, place.path("users.new")).unwrap();
    replace_file(&path, "one").unwrap();
    replace_file(&path, "two").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "two");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(!place.path("users.new").exists());
    create_file(&place.0.join("..")).unwrap_err();
}
