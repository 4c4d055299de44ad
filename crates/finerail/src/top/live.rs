//! The live view: it draws the samples on a terminal and reacts to keys.

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};

use super::feed::{Feed, Looks};
use super::keys;
use super::model::Model;
use super::screen;
use crate::service::raise_on_signals;

/// How long a new sample or a signal may wait until it is noticed.
const TICK: Duration = Duration::from_millis(100);

/// A terminal in drawing mode. Dropping it restores the terminal.
struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    fn open() -> io::Result<Self> {
        let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore())?;
        Ok(Self { terminal })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows the node until the user quits.
pub(super) fn run(
    feed: Feed,
    mut model: Model,
    interval: Duration,
    colours: bool,
) -> anyhow::Result<()> {
    let stop = raise_on_signals().context("cannot register signal handlers")?;
    let looks = feed.spawn(interval)?;
    let mut screen = Screen::open().context("cannot use the terminal")?;
    let mut is_changed = true;
    let mut seen = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if take(&mut model, &looks) {
            is_changed = true;
            if model.away.is_none() {
                seen = Instant::now();
            }
        }
        is_changed |= model.age(seen.elapsed(), interval);
        if std::mem::take(&mut is_changed) {
            let rows = screen::rows_in(screen.terminal.size()?.height, &model);
            model.scroll_into(rows);
            let drawn = |frame: &mut ratatui::Frame<'_>| screen::draw(frame, &model, colours);
            screen.terminal.draw(drawn)?;
        }
        if event::poll(TICK)? {
            is_changed = true;
            if !answer(&mut model, &event::read()?, &screen)? {
                break;
            }
        }
    }
    Ok(())
}

/// Gives the received samples to the model. Returns whether there were any.
fn take(model: &mut Model, looks: &Looks) -> bool {
    let mut came = false;
    for look in looks.looks.try_iter() {
        model.take(look);
        came = true;
    }
    came
}

/// Carries out the action of an event. Returns whether to continue.
fn answer(model: &mut Model, event: &Event, screen: &Screen) -> io::Result<bool> {
    let Event::Key(key) = event else {
        return Ok(true);
    };
    let Some(action) = keys::action(*key, model.is_editing) else {
        return Ok(true);
    };
    let rows = screen::rows_in(screen.terminal.size()?.height, model);
    Ok(model.act(action, rows))
}
