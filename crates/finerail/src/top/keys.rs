//! The meaning of keys.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// An action that a key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    /// Shows the page with this number, from 0.
    Page(usize),
    NextPage,
    PreviousPage,
    NextColumn,
    PreviousColumn,
    Reverse,
    Up,
    Down,
    PageUp,
    PageDown,
    Top,
    Bottom,
    Help,
    /// Begins to edit the filter.
    Filter,
    /// Adds a character to the filter.
    Type(char),
    Erase,
    /// Ends the editing and keeps the filter.
    Accept,
    /// Removes the filter.
    Cancel,
}

/// The keys and their meaning, for the help page.
pub(super) const HELP: &[(&str, &str)] = &[
    ("1 2 3", "the page of this number"),
    ("Tab", "the next of these"),
    ("< >", "sort by the column to the left, to the right"),
    ("r", "reverse order"),
    (
        "/",
        "show only what contains a text; Enter keeps it, Esc removes it",
    ),
    ("Up Down", "a row up or down; also k and j"),
    ("PgUp PgDn", "a page up or down; also b and space"),
    ("Home End", "first, last; also g and G"),
    ("?", "this help; any key ends it"),
    ("q Ctrl-C", "quit"),
];

/// Returns the action of a key. While the filter is edited, most keys are letters of the filter.
pub(super) fn action(key: KeyEvent, is_editing: bool) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c' | 'd') => Some(Action::Quit),
            KeyCode::Char('f') => Some(Action::PageDown),
            KeyCode::Char('b') => Some(Action::PageUp),
            _ => None,
        };
    }
    match key.code {
        KeyCode::Esc => Some(Action::Cancel),
        KeyCode::Enter => Some(Action::Accept),
        KeyCode::Backspace => Some(Action::Erase),
        KeyCode::Char(letter) if is_editing => Some(Action::Type(letter)),
        KeyCode::Char(letter) => of_letter(letter),
        code => of_code(code),
    }
}

fn of_letter(letter: char) -> Option<Action> {
    Some(match letter {
        'q' => Action::Quit,
        '1' => Action::Page(0),
        '2' => Action::Page(1),
        '3' => Action::Page(2),
        '4' => Action::Page(3),
        '5' => Action::Page(4),
        '<' | ',' => Action::PreviousColumn,
        '>' | '.' => Action::NextColumn,
        'r' => Action::Reverse,
        'k' => Action::Up,
        'j' => Action::Down,
        'b' => Action::PageUp,
        ' ' => Action::PageDown,
        'g' => Action::Top,
        'G' => Action::Bottom,
        '?' | 'h' => Action::Help,
        '/' => Action::Filter,
        _ => return None,
    })
}

fn of_code(code: KeyCode) -> Option<Action> {
    Some(match code {
        KeyCode::Tab => Action::NextPage,
        KeyCode::BackTab => Action::PreviousPage,
        KeyCode::Left => Action::PreviousColumn,
        KeyCode::Right => Action::NextColumn,
        KeyCode::Up => Action::Up,
        KeyCode::Down => Action::Down,
        KeyCode::PageUp => Action::PageUp,
        KeyCode::PageDown => Action::PageDown,
        KeyCode::Home => Action::Top,
        KeyCode::End => Action::Bottom,
        KeyCode::F(1) => Action::Help,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_a_filter_is_typed_letters_are_letters_and_control_c_still_quits() {
        let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
        let q = key(KeyCode::Char('q'));
        assert_eq!(action(q, false), Some(Action::Quit));
        assert_eq!(action(q, true), Some(Action::Type('q')));
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(action(interrupt, true), Some(Action::Quit));
        assert_eq!(action(key(KeyCode::F(9)), false), None);
    }
}
