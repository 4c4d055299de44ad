//! A file system together with its user and its name, accessed by paths.

use crate::tools::failure::{Failure, Why};
use crate::{Attributes, Caller, Entry, Errno, FileSystem, Handle, Kind, Path, Place};

/// A file system, the user of it, and its name in messages.
///
/// Objects are named by their whole path from the root, because handles of directories do not survive a restart of
/// the server.
#[derive(Clone, Copy)]
pub struct Tree<'a> {
    /// The file system.
    pub files: &'a dyn FileSystem,
    /// The user on whose behalf the file system is used.
    pub caller: &'a Caller,
    /// Prefix of paths in messages: `lnet:10.0.0.1@tcp:`.
    pub name: &'a str,
}

impl Tree<'_> {
    /// Looks up the object at a path; `None` is the root.
    ///
    /// # Errors
    ///
    /// The file system's error.
    pub fn lookup(&self, path: Option<&Path>) -> Result<Entry, Failure> {
        self.find(path)
            .map_err(|errno| self.failure("find", path, errno))
    }

    /// Looks up the object at a path. Returns `None` if there is no object.
    ///
    /// # Errors
    ///
    /// Any other error of the file system.
    pub fn lookup_if_any(&self, path: Option<&Path>) -> Result<Option<Entry>, Failure> {
        match self.find(path) {
            Ok(entry) => Ok(Some(entry)),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(self.failure("find", path, errno)),
        }
    }

    fn find(&self, path: Option<&Path>) -> Result<Entry, Errno> {
        match path {
            Some(path) => self.files.lookup(self.caller, place(path)),
            None => {
                let attributes = self.files.getattr(self.caller, Handle::ROOT)?;
                let handle = Handle::ROOT;
                Ok(Entry { handle, attributes })
            }
        }
    }

    /// Makes a directory and its missing parents. Leaves directories that exist unchanged.
    ///
    /// # Errors
    ///
    /// The file system's error; `ENOTDIR` if the path belongs to another kind of object.
    pub fn make_directories(&self, path: &Path) -> Result<(), Failure> {
        match self.lookup_if_any(Some(path))? {
            Some(entry) if entry.attributes.kind == Kind::Directory => return Ok(()),
            Some(_) => return Err(self.failure("make", Some(path), Errno::ENOTDIR)),
            None => {}
        }
        if let (Some(parent), _) = path.split_last() {
            self.make_directories(&parent)?;
        }
        match self.files.mkdir(self.caller, place(path), 0o777) {
            // EEXIST: another process made the directory first.
            Ok(_) | Err(Errno::EEXIST) => Ok(()),
            Err(errno) => Err(self.failure("make", Some(path), errno)),
        }
    }

    /// Returns the failure of an operation on a path.
    #[must_use]
    pub fn failure(&self, verb: &'static str, path: Option<&Path>, errno: Errno) -> Failure {
        self.failed(verb, path, Why::Errno(errno))
    }

    pub(crate) fn failed(&self, verb: &'static str, path: Option<&Path>, why: Why) -> Failure {
        let object = self.shown(path);
        Failure { verb, object, why }
    }

    /// Returns a path as text for people: the tree's name, a slash, and the path.
    #[must_use]
    pub fn shown(&self, path: Option<&Path>) -> String {
        match path {
            Some(path) => format!("{}/{path}", self.name),
            None => format!("{}/", self.name),
        }
    }
}

/// Returns the place of a path from the root.
pub(crate) fn place(path: &Path) -> Place {
    let path = path.clone();
    let directory = Handle::ROOT;
    Place { directory, path }
}

/// Returns the path of a name in a directory.
pub(crate) fn below(directory: Option<&Path>, name: &[u8]) -> Result<Path, Errno> {
    let name = Path::name(name)?;
    directory.map_or(Ok(name.clone()), |directory| directory.join(&name))
}

/// Returns whether two objects are the same: they have the same number in the same file system.
pub(crate) fn is_same_object(one: &Attributes, other: &Attributes) -> bool {
    (one.filesystem, one.file) == (other.filesystem, other.file)
}
