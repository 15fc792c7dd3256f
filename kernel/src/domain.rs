//! A domain: a thread while it executes a text. What it may touch is asked of ACLs and cached in its view.

use crate::section::Section;
use crate::task::Task;
use crate::view::View;
use abi::Rights;
use abi::layout::{SPACE_BASE, SPACE_END, WINDOW_END};
use ::acl::Subject;
use alloc::sync::Arc;

pub struct Domain {
    pub subject: Subject,
    pub text: Arc<Section>,
    pub view: Arc<View>,
    /// The thread's task, whose window this is.
    pub task: Arc<Task>,
    /// The text is that of the task's window: it sees the window only (pitfalls, R6).
    pub in_window: bool,
    /// The stack of this thread for this text: base, and first address beyond it.
    pub stack: (u64, u64),
    /// The section that it was made in, by itself and not by its address, where the thread may have put another one.
    pub stack_section: Option<Arc<Section>>,
    /// Its number among the domains of its thread.
    pub number: u32,
}

/// Where an address leads.
pub struct Place {
    pub section: Arc<Section>,
    pub offset: u64,
    /// Protection of the window mapping by which it came.
    pub window: Option<Rights>,
    /// The mapping: `[at, at + len)` shows the section from `from` on.
    pub at: u64,
    pub from: u64,
    pub len: u64,
}

impl Place {
    /// Whether both lead to the same page with the same protection.
    pub fn is_same_page(&self, other: &Place) -> bool {
        Arc::ptr_eq(&self.section, &other.section) && self.offset == other.offset && self.window == other.window
    }
}

impl Domain {
    /// The page-table root that it runs with.
    pub fn root(&self) -> u64 {
        self.view.root()
    }

    /// The section behind an address, as this domain sees the space.
    pub fn locate(&self, address: u64) -> Option<Place> {
        if address < WINDOW_END {
            return self.task.window.lock().locate(address);
        }
        if self.in_window || !(SPACE_BASE..SPACE_END).contains(&address) {
            return None;
        }
        let section = Section::find(address)?;
        Some(Place { offset: address - section.base, at: section.base, from: 0, len: section.reserve, window: None, section })
    }
}
