//! Draws the model on a screen.
//!
//! ```text
//!  summary   4 lines: the node and its uptime; messages and bytes a second; what is in flight; one more for a service
//!  tabs      the pages, with the number of rows of each
//!  titles    of the columns that fit
//!  rows …
//!  footer    keys, or the filter while it is edited; the range of visible rows
//! ```

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::frame::{Row, State};
use super::keys::HELP;
use super::model::Model;
use super::plain::{self, Layout as Columns};
use super::text;

/// Lines that are neither rows nor the summary.
const AROUND: u16 = 3;

/// Returns the number of rows that fit on a screen of this height.
pub(super) fn rows_in(height: u16, model: &Model) -> usize {
    let summary = plain::summary(model).len();
    usize::from(height.saturating_sub(AROUND)).saturating_sub(summary)
}

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, colours: bool) {
    let paint = Paint { colours };
    let one = Constraint::Length(1);
    let lines = plain::summary(model);
    // A few lines.
    let height = Constraint::Length(lines.len() as u16);
    let parts = [height, one, one, Constraint::Fill(1), one];
    let [summary, tabs, titles, rows, footer] = Layout::vertical(parts).areas(frame.area());
    let lines: Vec<Line<'_>> = lines
        .into_iter()
        .enumerate()
        .map(|(at, line)| paint.summary(at, line, model))
        .collect();
    frame.render_widget(Paragraph::new(lines), summary);
    frame.render_widget(tab_line(model), tabs);
    let visible = visible(model, rows);
    let columns = Columns::fitting(model.page.columns(), visible, rows.width.into());
    frame.render_widget(title_line(model, &columns), titles);
    let lines: Vec<Line<'_>> = visible.iter().map(|row| paint.row(row, &columns)).collect();
    frame.render_widget(Paragraph::new(lines), rows);
    frame.render_widget(footer_line(model, visible.len(), footer.width), footer);
    if model.shows_help {
        help(frame);
    }
}

fn visible(model: &Model, area: Rect) -> &[Row] {
    let rest = model.rows().get(model.first..).unwrap_or_default();
    rest.get(..area.height.into()).unwrap_or(rest)
}

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// The styles, with or without colours.
#[derive(Clone, Copy)]
struct Paint {
    colours: bool,
}

impl Paint {
    fn state(self, state: State) -> Style {
        match state {
            State::Down if self.colours => Style::new().fg(Color::Red),
            State::Recovering | State::Ill if self.colours => Style::new().fg(Color::Yellow),
            State::Down => BOLD,
            _ => Style::new(),
        }
    }

    fn summary(self, at: usize, line: String, model: &Model) -> Line<'static> {
        let style = match (at, &model.away) {
            (0, Some(_)) => self.state(State::Down).patch(BOLD),
            (0, None) => BOLD,
            _ => Style::new(),
        };
        Line::styled(line, style)
    }

    fn row(self, row: &Row, columns: &Columns) -> Line<'static> {
        Line::styled(columns.row(row), self.state(row.state))
    }
}

fn tab_line(model: &Model) -> Line<'static> {
    let mut spans = Vec::new();
    for (at, &page) in model.pages.iter().enumerate() {
        let count = text::grouped(model.count(page));
        let tab = format!(" {} {} {count} ", at + 1, page.title());
        let style = if page == model.page {
            REVERSED
        } else {
            Style::new()
        };
        spans.extend([Span::styled(tab, style), Span::raw(" ")]);
    }
    Line::from(spans)
}

fn title_line(model: &Model, columns: &Columns) -> Line<'static> {
    let order = model.order();
    let mut spans = Vec::new();
    for (column, title) in columns.titles(model.page.columns()) {
        let is_sorted = order.column == Some(column);
        let style = if is_sorted {
            BOLD.patch(REVERSED)
        } else {
            BOLD
        };
        spans.extend([Span::styled(title, style), Span::raw(" ")]);
    }
    Line::from(spans)
}

fn footer_line(model: &Model, shown: usize, width: u16) -> Line<'static> {
    let left = if model.is_editing {
        format!(
            "filter: {}_  (Enter keeps it, Esc removes it)",
            model.filter
        )
    } else if model.filter.is_empty() {
        "q quit  ? help  Tab page  <> sort  r reverse  / filter".to_owned()
    } else {
        format!("filter: {}  (Esc removes it)", model.filter)
    };
    let (first, rows) = (model.first, model.rows().len());
    let last = text::grouped(first + shown);
    let all = text::grouped(rows);
    let right = match shown {
        0 => "no rows".to_owned(),
        _ => format!("{}-{last} of {all}", text::grouped(first + 1)),
    };
    let gap = usize::from(width).saturating_sub(left.chars().count() + right.len());
    Line::from(format!("{left}{}{right}", " ".repeat(gap.max(1))))
}

fn help(frame: &mut Frame<'_>) {
    let lines = HELP
        .iter()
        .map(|(keys, what)| format!(" {keys:<10} {what} "));
    let lines: Vec<String> = lines.collect();
    let widest = lines.iter().map(String::len).max().unwrap_or(0) + 2;
    let screen = frame.area();
    let (width, height) = (widest as u16, lines.len() as u16 + 2);
    let area = Rect {
        x: screen.width.saturating_sub(width) / 2,
        y: screen.height.saturating_sub(height) / 2,
        width: width.min(screen.width),
        height: height.min(screen.height),
    };
    frame.render_widget(Clear, area);
    let lines: Vec<Line<'_>> = lines.into_iter().map(Line::from).collect();
    let block = Block::bordered().title(" Keys ");
    frame.render_widget(Paragraph::new(lines).block(block), area);
}
