//! Scripts of completion for bash, zsh and fish: one table of words, and a few lines of shell that look there.
//!
//! The table has a row for each command (its path; its commands, options and values) and for each option that takes
//! one of a few values (path and option; the values). Help texts are left to `--help`: with them the scripts would be
//! half a megabyte that every new shell reads.

use clap::{Arg, Command};
use clap_complete::Shell;

/// A row: what stands before the word that is completed, and what the word can be.
struct Row {
    before: String,
    words: Vec<String>,
}

/// The script for a shell, if it is one of those three.
pub(crate) fn script(shell: Shell, command: &Command, name: &str) -> Option<String> {
    let mut rows = Vec::new();
    collect(command, "", &mut rows);
    let (head, tail, is_fish) = match shell {
        Shell::Bash => (BASH_HEAD, BASH_TAIL, false),
        Shell::Zsh => (ZSH_HEAD, ZSH_TAIL, false),
        Shell::Fish => (FISH_HEAD, FISH_TAIL, true),
        _ => return None,
    };
    let line = if is_fish { fish_line } else { posix_line };
    let table: String = rows.iter().map(line).collect();
    Some((head.to_owned() + &table + tail).replace("NAME", name))
}

fn collect(command: &Command, path: &str, rows: &mut Vec<Row>) {
    let commands = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set());
    let commands: Vec<&Command> = commands
        .filter(|below| below.get_name() != "help")
        .collect();
    let mut words: Vec<String> = commands
        .iter()
        .map(|below| below.get_name().to_owned())
        .collect();
    let shown = |arg: &&Arg| !arg.is_hide_set();
    for arg in command.get_arguments().filter(shown) {
        match arg.get_long() {
            Some(long) => {
                words.push(format!("--{long}"));
                let before = format!("{path} --{long}");
                let words = values(arg);
                if !words.is_empty() {
                    rows.push(Row { before, words });
                }
            }
            None if arg.is_positional() => words.extend(values(arg)),
            None => {}
        }
    }
    rows.push(Row {
        before: path.to_owned(),
        words,
    });
    for below in commands {
        collect(below, &format!("{path} {}", below.get_name()), rows);
    }
}

/// The values that an argument can have, where these are few. A flag has none.
fn values(arg: &Arg) -> Vec<String> {
    if !arg.get_action().takes_values() {
        return Vec::new();
    }
    let values = arg.get_possible_values();
    let values = values.iter().filter(|value| !value.is_hide_set());
    values.map(|value| value.get_name().to_owned()).collect()
}

/// Names and values have no quotes.
fn posix_line(row: &Row) -> String {
    format!("'{}') words='{}' ;;\n", row.before, row.words.join(" "))
}

fn fish_line(row: &Row) -> String {
    format!(
        "case '{}'\nprintf '%s\\n' {}\n",
        row.before,
        row.words.join(" ")
    )
}

const BASH_HEAD: &str = "\
# Completion of NAME for bash.
_NAME_words() {
case \"$1\" in
";

const BASH_TAIL: &str = "\
*) return 1 ;;
esac
}
_NAME() {
    local at path='' words='' current=\"${COMP_WORDS[COMP_CWORD]}\"
    for ((at = 1; at < COMP_CWORD; at++)); do
        case \"${COMP_WORDS[at]}\" in
        -*) ;;
        *) _NAME_words \"$path ${COMP_WORDS[at]}\" && path=\"$path ${COMP_WORDS[at]}\" ;;
        esac
    done
    _NAME_words \"$path ${COMP_WORDS[COMP_CWORD - 1]}\" || _NAME_words \"$path\"
    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")
}
complete -o default -o bashdefault -F _NAME NAME
";

const ZSH_HEAD: &str = "\
#compdef NAME
_NAME_words() {
case \"$1\" in
";

const ZSH_TAIL: &str = "\
*) return 1 ;;
esac
}
_NAME() {
    local word track='' words_before=(\"${(@)words[2,CURRENT-1]}\") last=\"${words[CURRENT-1]}\"
    local words=''
    for word in \"${(@)words_before}\"; do
        case \"$word\" in
        -*) ;;
        *) _NAME_words \"$track $word\" && track=\"$track $word\" ;;
        esac
    done
    _NAME_words \"$track $last\" || _NAME_words \"$track\"
    compadd -- ${=words}
    _files
}
if [ \"$funcstack[1]\" = \"_NAME\" ]; then
    _NAME \"$@\"
else
    compdef _NAME NAME
fi
";

const FISH_HEAD: &str = "\
# Completion of NAME for fish.
function __NAME_words
switch \"$argv[1]\"
";

const FISH_TAIL: &str = "\
case '*'
return 1
end
end
function __NAME_complete
    set -l tokens (commandline -opc)
    set -l track ''
    for token in $tokens[2..-1]
        if not string match -q -- '-*' $token; and __NAME_words \"$track $token\" >/dev/null
            set track \"$track $token\"
        end
    end
    __NAME_words \"$track $tokens[-1]\"; or __NAME_words \"$track\"
end
complete -c NAME -a '(__NAME_complete)'
";
