import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { choiceOf } from "../values.ts";

// Each script hands the words so far to the tool itself, so that it need not change when commands do.

const SCRIPTS = {
  bash: `_zae_limiter() {
  local cur="\${COMP_WORDS[COMP_CWORD]}"
  local IFS=$'\\n'
  COMPREPLY=($(zae-limiter __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  if declare -F __ltrim_colon_completions >/dev/null; then __ltrim_colon_completions "$cur"; fi
}
complete -o default -F _zae_limiter zae-limiter
`,
  zsh: `#compdef zae-limiter
_zae_limiter() {
  local -a found
  found=("\${(@f)$(zae-limiter __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  (( \${#found} )) && [[ -n "\${found[1]}" ]] && compadd -a found || _files
}
if [ "$funcstack[1]" = "_zae_limiter" ]; then _zae_limiter; else compdef _zae_limiter zae-limiter; fi
`,
  fish: `function __zae_limiter_complete
  set -l words (commandline -opc)
  set -e words[1]
  zae-limiter __complete -- $words (commandline -ct) 2>/dev/null
end
complete -c zae-limiter -f -a '(__zae_limiter_complete)'
`,
  powershell: `Register-ArgumentCompleter -Native -CommandName zae-limiter -ScriptBlock {
  param($wordToComplete, $commandAst, $cursorPosition)
  $words = @($commandAst.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
  if ($wordToComplete -eq '') { $words += '' }
  zae-limiter __complete -- @words 2>$null | ForEach-Object {
    [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
  }
}
`,
} as const;

const SHELLS = ["bash", "zsh", "fish", "powershell"] as const;

export const completion: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .argument("<shell>", "bash, zsh, fish or powershell")
      .addHelpText("after", examples("zae-limiter completion bash"))
      .addHelpText(
        "after",
        "\nbash: add `source <(zae-limiter completion bash)` to ~/.bashrc. zsh: the same in ~/.zshrc. fish: write it to\n" +
          "~/.config/fish/completions/zae-limiter.fish. powershell: add it to $PROFILE.\n",
      );
  },
  run: async ({ output }, _, [given = ""]) => {
    await output.write(SCRIPTS[choiceOf(given, SHELLS, "The shell")]);
    return EXIT.done;
  },
};
