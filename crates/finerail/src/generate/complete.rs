//! Completion scripts: one table of words, and a few lines of shell that search the table.
//!
//! The table has a row for each command (its path; its commands, options and values) and for each option that
//! takes one of a few values (its path and the option; the values). The scripts have no help texts, which
//! `--help` shows: with them every new shell would read half a megabyte.

use clap::{Arg, Command, ValueEnum};

/// A shell for which a completion script can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

/// A row of the table: the words before the word to complete, and the words that can stand in its place.
struct Row {
    before: String,
    words: Vec<String>,
}

/// Returns the completion script for a shell.
pub(crate) fn script(shell: Shell, command: &Command, name: &str) -> String {
    let mut rows = Vec::new();
    collect(command, "", &mut rows);
    let (head, line, tail): (_, fn(&Row) -> String, _) = match shell {
        Shell::Bash => (BASH_HEAD, posix_line, BASH_TAIL),
        Shell::Elvish => (ELVISH_HEAD, elvish_line, ELVISH_TAIL),
        Shell::Fish => (FISH_HEAD, fish_line, FISH_TAIL),
        Shell::Powershell => (POWERSHELL_HEAD, powershell_line, POWERSHELL_TAIL),
        Shell::Zsh => (ZSH_HEAD, posix_line, ZSH_TAIL),
    };
    let table: String = rows.iter().map(line).collect();
    (head.to_owned() + &table + tail).replace("NAME", name)
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

/// Returns the possible values of an argument if clap lists them. A flag has none.
fn values(arg: &Arg) -> Vec<String> {
    if !arg.get_action().takes_values() {
        return Vec::new();
    }
    let values = arg.get_possible_values();
    let values = values.iter().filter(|value| !value.is_hide_set());
    values.map(|value| value.get_name().to_owned()).collect()
}

/// Returns a row for bash and zsh. Names and values contain no quotes, so no word needs escaping.
fn posix_line(row: &Row) -> String {
    format!("'{}') words='{}' ;;\n", row.before, row.words.join(" "))
}

fn elvish_line(row: &Row) -> String {
    format!("&'{}'='{}'\n", row.before, row.words.join(" "))
}

fn powershell_line(row: &Row) -> String {
    format!("'{}' = '{}'\n", row.before, row.words.join(" "))
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

const ELVISH_HEAD: &str = "\
# Completion of NAME for elvish.
use str
var NAME-words = [
";

const ELVISH_TAIL: &str = "\
]
set edit:completion:arg-completer[NAME] = {|@words|
    var path = ''
    for word $words[1..-1] {
        if (and (not (str:has-prefix $word '-')) (has-key $NAME-words $path' '$word)) {
            set path = $path' '$word
        }
    }
    var option = $path' '$words[-2]
    if (has-key $NAME-words $option) {
        set path = $option
    }
    str:split ' ' $NAME-words[$path]
    edit:complete-filename $words[-1]
}
";

const POWERSHELL_HEAD: &str = "\
# Completion of NAME for PowerShell.
Register-ArgumentCompleter -Native -CommandName 'NAME' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $table = @{
";

const POWERSHELL_TAIL: &str = "\
    }
    $path = ''
    $last = ''
    foreach ($element in ($commandAst.CommandElements | Select-Object -Skip 1)) {
        if ($element.Extent.EndOffset -ge $cursorPosition) { break }
        $last = \"$element\"
        if (-not $last.StartsWith('-') -and $table.ContainsKey(\"$path $last\")) { $path = \"$path $last\" }
    }
    if ($table.ContainsKey(\"$path $last\")) { $path = \"$path $last\" }
    $table[$path].Split(' ') | Where-Object { $_ -like \"$wordToComplete*\" } |
        ForEach-Object { [System.Management.Automation.CompletionResult]::new($_) }
}
";
