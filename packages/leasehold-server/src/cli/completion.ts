import { Argument, type Command } from "commander";
import { commandTree } from "./command-tree.js";
import { bashScript, fishScript, zshScript } from "./completion/shells.js";
import { write } from "./output.js";

const SHELLS = { bash: bashScript, zsh: zshScript, fish: fishScript } as const;

/** @param loadAll loads the program with all commands, of which this one's has only the names */
export function addCompletion(command: Command, loadAll: () => Promise<Command>): void {
  command
    .addArgument(new Argument("<shell>", "shell").choices(Object.keys(SHELLS)))
    .addHelpText("after", HELP)
    .action(async (shell: keyof typeof SHELLS) => {
      await write(SHELLS[shell](commandTree(await loadAll())));
    });
}

const HELP = `
Examples:
  source <(leasehold completion bash)                                        # in ~/.bashrc
  leasehold completion zsh > "\${fpath[1]}/_leasehold"
  leasehold completion fish > ~/.config/fish/completions/leasehold.fish`;
