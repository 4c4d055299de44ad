//! The options in files of `modprobe.d`.

use std::ops::RangeInclusive;

use super::scan::{Cursor, Word};
use super::{Dialect, ModuleOptions, OptionKind, OtherOption, grammar};
use crate::error::{Fault, Problem};
use crate::parameters::{Globals, Parameter};

/// Reads all `options` lines. Faults go to `wrong`, which decides whether the next option is read.
pub(super) fn read(
    options: &mut ModuleOptions,
    source: &str,
    dialect: Dialect,
    mut wrong: impl FnMut(Fault) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let wrong: Wrong<'_> = &mut wrong;
    let mut file = Cursor::new(source);
    while !file.at_end() {
        let length = line_length(file.rest());
        let mut line = file.split(length);
        line.blanks();
        if line.word(is_name).text != "options" {
            continue;
        }
        line.blanks();
        let module = line.word(is_name).text;
        of_module(options, module, line, dialect, wrong)?;
    }
    Ok(())
}

/// Handles a fault: ends the reading, or notes the fault.
type Wrong<'f> = &'f mut dyn FnMut(Fault) -> Result<(), Fault>;

/// Reads the options of one line, or those inside one pair of quotes.
fn of_module(
    options: &mut ModuleOptions,
    module: &str,
    mut line: Cursor<'_>,
    dialect: Dialect,
    wrong: Wrong<'_>,
) -> Result<(), Fault> {
    loop {
        match next_word(&mut line) {
            Ok(None) => return Ok(()),
            Ok(Some(OptionWord::Quoted(inner))) => {
                of_module(options, module, inner, dialect, wrong)?;
            }
            Ok(Some(OptionWord::Assignment(name, value))) => {
                option(options, module, name, value, dialect).or_else(&mut *wrong)?;
            }
            // The start of the next option of the line is unknown.
            Err(fault) => return wrong(fault),
        }
    }
}

/// Reads `NAME=VALUE` of the module `lnet`. A value without quotes extends to the end.
pub(super) fn assignments(
    options: &mut ModuleOptions,
    source: &str,
    dialect: Dialect,
) -> Result<(), Fault> {
    let mut text = Cursor::new(source);
    text.word(char::is_whitespace);
    if let Some(inner) = quoted(&mut text)? {
        return of_module(options, "lnet", inner, dialect, &mut Err);
    }
    while let Some(name) = option_name(&mut text)? {
        let value = match quoted(&mut text)? {
            Some(value) => value,
            None => text.split(text.rest().len()),
        };
        option(options, "lnet", name, value, dialect)?;
        text.word(char::is_whitespace);
    }
    Ok(())
}

/// Bytes up to and including the end of a line; continued lines count as one.
fn line_length(text: &str) -> usize {
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find('\n')) {
        let end = from + at;
        from = end + 1;
        let line = text.get(..end).unwrap_or_default();
        if !line.trim_end_matches('\r').ends_with('\\') {
            return from;
        }
    }
    text.len()
}

fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_' || character == '-'
}

/// A word of a line of options.
enum OptionWord<'a> {
    /// `name=value`
    Assignment(Word<'a>, Cursor<'a>),
    /// `'name="value"'`, as shells write it: the text inside the outer quotes.
    Quoted(Cursor<'a>),
}

/// The next word of a line; a value ends at a blank unless it is quoted.
fn next_word<'a>(line: &mut Cursor<'a>) -> Result<Option<OptionWord<'a>>, Fault> {
    line.blanks();
    if let Some(inner) = quoted(line)? {
        return Ok(Some(OptionWord::Quoted(inner)));
    }
    let Some(name) = option_name(line)? else {
        return Ok(None);
    };
    let value = match quoted(line)? {
        Some(value) => value,
        None => {
            let rest = line.rest();
            let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
            line.split(length)
        }
    };
    Ok(Some(OptionWord::Assignment(name, value)))
}

/// `name=`; `None` at the end of the line or before a comment.
fn option_name<'a>(line: &mut Cursor<'a>) -> Result<Option<Word<'a>>, Fault> {
    line.blanks();
    line.word(|character| character == '\n');
    if line.at_end() || line.peek() == Some('#') {
        return Ok(None);
    }
    let name = line.word(is_name);
    if name.text.is_empty() || !line.take('=') {
        return Err(line.expected("an option as NAME=VALUE"));
    }
    Ok(Some(name))
}

/// A value in quotes, if one begins here. Quotes directly inside other quotes (`'"tcp"'`) and
/// doubled quotes (`""tcp""`) count as one pair.
pub(super) fn quoted<'a>(line: &mut Cursor<'a>) -> Result<Option<Cursor<'a>>, Fault> {
    let Some(quote @ ('"' | '\'')) = line.peek() else {
        return Ok(None);
    };
    let start = *line;
    line.take(quote);
    let mut rest = line.rest().chars();
    let is_doubled = rest.next() == Some(quote)
        && rest
            .next()
            .is_some_and(|next| !next.is_whitespace() && next != quote);
    let closing = quote.to_string().repeat(if is_doubled { 2 } else { 1 });
    if is_doubled {
        line.take(quote);
    }
    let Some(length) = line.rest().find(&closing) else {
        return Err(start.expected("a value whose quotes are closed"));
    };
    let value = line.split(length);
    line.advance(closing.len());
    Ok(Some(unwrapped(value)))
}

/// The text inside a pair of quotes around the whole value.
fn unwrapped(value: Cursor<'_>) -> Cursor<'_> {
    let text = value.rest();
    let inner = ['"', '\''].into_iter().find_map(|quote| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.contains(quote)).then_some(inner)
    });
    let Some(inner) = inner else { return value };
    let mut within = value;
    // A quote is one byte.
    within.advance(1);
    within.split(inner.len())
}

fn option(
    options: &mut ModuleOptions,
    module: &str,
    name: Word<'_>,
    value: Cursor<'_>,
    dialect: Dialect,
) -> Result<(), Fault> {
    let kind = match (module, name.text) {
        ("lnet", "networks") => OptionKind::Networks,
        ("lnet", "ip2nets") => OptionKind::Ip2Nets,
        ("lnet", "routes") => OptionKind::Routes,
        _ => return parameter(options, module, name, value),
    };
    let is_there = match kind {
        OptionKind::Networks => !options.networks.is_empty(),
        OptionKind::Ip2Nets => !options.ip2nets.is_empty(),
        OptionKind::Routes => !options.routes.is_empty(),
    };
    if is_there {
        let key = name.text.to_owned();
        // The module uses only the last one, but the author of two entries means both.
        if dialect == Dialect::Kernel {
            return Err(Fault::new(name.place, Problem::KeyTwice { key }));
        }
        options.twice.push(key);
    }
    grammar::value(options, kind, value, dialect)?;
    let both = !options.networks.is_empty() && !options.ip2nets.is_empty();
    if both && dialect == Dialect::Kernel {
        return Err(Fault::new(name.place, Problem::NetworksAndIp2Nets));
    }
    Ok(())
}

/// An option that is one value.
fn parameter(
    options: &mut ModuleOptions,
    module: &str,
    name: Word<'_>,
    mut value: Cursor<'_>,
) -> Result<(), Fault> {
    let value = value.word(|_| true);
    if module != "lnet" || !known(options, name.text, value)? {
        options.others.push(OtherOption {
            module: module.to_owned(),
            name: name.text.to_owned(),
            value: value.text.to_owned(),
        });
    }
    Ok(())
}

/// Reads an option that YAML has too; false for other options.
fn known(options: &mut ModuleOptions, name: &str, value: Word<'_>) -> Result<bool, Fault> {
    let ModuleOptions {
        buffers, globals, ..
    } = options;
    let pool = match name {
        "forwarding" => {
            options.forwarding = forwarding(value)?;
            return Ok(true);
        }
        "tiny_router_buffers" => &mut buffers.tiny,
        "small_router_buffers" => &mut buffers.small,
        "large_router_buffers" => &mut buffers.large,
        _ => return global(globals, name, value),
    };
    *pool = Some(number(name, value, 0..=MAX)?);
    Ok(true)
}

fn global(globals: &mut Globals, name: &str, value: Word<'_>) -> Result<bool, Fault> {
    let Some(parameter) = Parameter::of_option(name) else {
        return Ok(false);
    };
    let values = if parameter.is_opposite {
        0..=1
    } else {
        parameter.values.clone()
    };
    let number = number(name, value, values)?;
    parameter.set(globals, parameter.option_value(number));
    Ok(true)
}

/// Kernels hold these as signed 32-bit numbers.
const MAX: u32 = i32::MAX as u32;

fn number(name: &str, value: Word<'_>, values: RangeInclusive<u32>) -> Result<u32, Fault> {
    let is_decimal = value.text.bytes().all(|byte| byte.is_ascii_digit());
    match value.text.parse() {
        Ok(number) if is_decimal && values.contains(&number) => Ok(number),
        _ => {
            let (min, max) = values.into_inner();
            Err(value.invalid(name, format!("{name} is an integer from {min} to {max}")))
        }
    }
}

/// An empty value leaves the decision to the routes: a node that is the gateway of a route
/// forwards.
fn forwarding(value: Word<'_>) -> Result<Option<bool>, Fault> {
    match value.text {
        "" => Ok(None),
        "enabled" => Ok(Some(true)),
        "disabled" => Ok(Some(false)),
        _ => Err(value.invalid("forwarding", "it is enabled or disabled")),
    }
}
