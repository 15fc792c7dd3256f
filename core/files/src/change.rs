//! Making names, taking them away, giving others.

use crate::node::{Body, Kind, Locks, Node, State, Status};
use crate::{TRIES, Tree};
use abi::Error;
use abi::task::USER_SYSTEM;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

/// Nodes whose locks are held, taken in the order of their numbers.
struct Held<'a, L: Locks, C: 'a>(Vec<(u64, L::Guard<'a, State<L, C>>)>);

impl<'a, L: Locks, C: Default> Held<'a, L, C> {
    fn lock(nodes: &[&'a Arc<Node<L, C>>]) -> Held<'a, L, C> {
        let mut nodes = nodes.to_vec();
        nodes.sort_unstable_by_key(|node| node.number);
        nodes.dedup_by_key(|node| node.number);
        Held(nodes.into_iter().map(|node| (node.number, node.lock())).collect())
    }

    fn of(&mut self, node: &Node<L, C>) -> Result<&mut State<L, C>, Error> {
        let found = self.0.iter_mut().find(|held| held.0 == node.number);
        found.map(|held| &mut *held.1).ok_or(Error::BadArgument)
    }
}

/// Who may take a name away: the owner of the directory, or of what the name leads to.
fn may_take<L: Locks, C>(user: u64, directory: &Node<L, C>, node: &Node<L, C>) -> Result<(), Error> {
    let may = [USER_SYSTEM, directory.owner, node.owner].contains(&user);
    if may { Ok(()) } else { Err(Error::Denied) }
}

fn is<L: Locks, C>(found: Option<&Arc<Node<L, C>>>, node: &Arc<Node<L, C>>) -> bool {
    found.is_some_and(|found| Arc::ptr_eq(found, node))
}

impl<L: Locks, C: Default> Tree<L, C> {
    /// Makes a file or a directory.
    ///
    /// # Errors
    /// `Exists`; `Quota`; as for a path.
    pub fn create(&self, user: u64, path: &[u8], kind: Kind, mode: u16, now: i64) -> Result<Arc<Node<L, C>>, Error> {
        self.make(user, path, Status { number: 0, kind, owner: user, mode, mtime: now })
    }

    /// The same for somebody, wherever that may be.
    ///
    /// # Errors
    /// As [`Tree::create`].
    pub fn install(&self, path: &[u8], of: Status) -> Result<Arc<Node<L, C>>, Error> {
        self.make(USER_SYSTEM, path, of)
    }

    fn make(&self, user: u64, path: &[u8], of: Status) -> Result<Arc<Node<L, C>>, Error> {
        let (directory, name, slash) = self.place(user, path)?;
        if slash && of.kind == Kind::File {
            return Err(Error::IsADirectory);
        }
        let of = Status { number: self.next.fetch_add(1, Ordering::Relaxed), ..of };
        let mut node = Node::new(of, Some(&directory));
        node.taken = Some(self.taken(of.owner, &directory)?);
        let node = Arc::new(node);
        let mut state = directory.lock();
        // What is there already says so to whoever may not make it, too.
        if let Body::Directory { names, .. } = &state.body
            && names.contains_key(name)
        {
            return Err(Error::Exists);
        }
        state.names_for(user, directory.owner)?.insert(name.into(), node.clone());
        state.mtime = of.mtime;
        Ok(node)
    }

    /// Takes a name away. What it leads to stays as long as somebody has it open.
    ///
    /// # Errors
    /// `IsADirectory`, `NotADirectory` if it is not of that kind; `NotEmpty`; `Denied`; `Busy`; as for a path.
    pub fn remove(&self, user: u64, path: &[u8], kind: Kind, now: i64) -> Result<(), Error> {
        for _ in 0..TRIES {
            let (directory, name, slash) = self.place(user, path)?;
            let node = directory.step(user, name)?;
            match (kind, node.kind) {
                (Kind::File, Kind::Directory) => return Err(Error::IsADirectory),
                (Kind::Directory, Kind::File) => return Err(Error::NotADirectory),
                (Kind::File, Kind::File) if slash => return Err(Error::NotADirectory),
                _ => {}
            }
            // Whatever goes is dropped behind the locks.
            let _removed;
            let mut held = Held::lock(&[&directory, &node]);
            let names = held.of(&directory)?.names_for(user, directory.owner)?;
            if !is(names.get(name), &node) {
                continue;
            }
            may_take(user, &directory, &node)?;
            let own = held.of(&node)?;
            if !own.is_empty() {
                return Err(Error::NotEmpty);
            }
            own.gone = true;
            node.turn();
            let state = held.of(&directory)?;
            _removed = state.names_for(user, directory.owner)?.remove(name);
            state.mtime = now;
            return Ok(());
        }
        Err(Error::Busy)
    }

    /// Gives a node another name; what had that name before is gone.
    ///
    /// # Errors
    /// `BadArgument` if a directory were to go into itself; `IsADirectory`, `NotADirectory`, `NotEmpty` for what has the new name;
    /// `Denied`; `Busy`; as for a path.
    pub fn rename(&self, user: u64, from: &[u8], to: &[u8], now: i64) -> Result<(), Error> {
        for _ in 0..TRIES {
            if self.try_rename(user, from, to, now)? {
                return Ok(());
            }
        }
        Err(Error::Busy)
    }

    /// `false` if somebody changed something meanwhile.
    fn try_rename(&self, user: u64, from: &[u8], to: &[u8], now: i64) -> Result<bool, Error> {
        let (old, old_name, old_slash) = self.place(user, from)?;
        let node = old.step(user, old_name)?;
        let (new, new_name, new_slash) = self.place(user, to)?;
        if node.kind == Kind::File && (old_slash || new_slash) {
            return Err(Error::NotADirectory);
        }
        let target = match new.step(user, new_name) {
            Ok(target) => Some(target),
            Err(Error::NotFound) => None,
            Err(error) => return Err(error),
        };
        if target.as_ref().is_some_and(|target| Arc::ptr_eq(target, &node)) {
            return Ok(true);
        }
        match (node.kind, target.as_ref().map(|target| target.kind)) {
            (Kind::File, Some(Kind::Directory)) => return Err(Error::IsADirectory),
            (Kind::Directory, Some(Kind::File)) => return Err(Error::NotADirectory),
            _ => {}
        }
        let moves = node.kind == Kind::Directory && !Arc::ptr_eq(&old, &new);
        let _moving = moves.then(|| L::lock(&self.moves));
        if moves {
            // Nothing above changes its parent now.
            let mut above = Some(new.clone());
            while let Some(at) = above {
                if Arc::ptr_eq(&at, &node) {
                    return Err(Error::BadArgument);
                }
                above = at.parent();
            }
        }
        let _replaced;
        let mut nodes = Vec::from([&old, &new, &node]);
        nodes.extend(&target);
        let mut held = Held::lock(&nodes);
        let names = held.of(&old)?.names_for(user, old.owner)?;
        if !is(names.get(old_name), &node) {
            return Ok(false);
        }
        may_take(user, &old, &node)?;
        let names = held.of(&new)?.names_for(user, new.owner)?;
        match (names.get(new_name), &target) {
            (None, None) => {}
            (Some(found), Some(target)) if Arc::ptr_eq(found, target) => may_take(user, &new, target)?,
            _ => return Ok(false),
        }
        if let Some(target) = &target {
            let own = held.of(target)?;
            if !own.is_empty() {
                return Err(Error::NotEmpty);
            }
            own.gone = true;
            target.turn();
        }
        node.turn();
        // From here on nothing fails.
        let state = held.of(&old)?;
        state.mtime = now;
        state.names_for(user, old.owner)?.remove(old_name);
        let state = held.of(&new)?;
        state.mtime = now;
        _replaced = state.names_for(user, new.owner)?.insert(new_name.into(), node.clone());
        if let Body::Directory { parent, .. } = &mut held.of(&node)?.body {
            *parent = Arc::downgrade(&new);
        }
        Ok(true)
    }
}
