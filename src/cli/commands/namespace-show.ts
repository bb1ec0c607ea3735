import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { requireNamespace } from "../known-namespace.ts";
import { onStore } from "../on-store.ts";
import { printValue } from "../print.ts";
import { namespaceText } from "../show-namespace.ts";

export const namespaceShow: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .argument("<name>", "the namespace")
      .addHelpText("after", examples("zae-limiter namespace show default"))
      .addHelpText("after", "\nExit codes: 4 no such namespace.\n");
  },
  run: (context, options, [name = ""]) =>
    onStore(context, options, async (limiter) => {
      const namespace = await requireNamespace(limiter, name);
      await printValue(context, options, namespace, () => namespaceText(namespace));
      return EXIT.done;
    }),
};
