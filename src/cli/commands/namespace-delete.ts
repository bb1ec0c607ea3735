import { ValidationError } from "../../domain/errors.ts";
import { confirmed } from "../ask.ts";
import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { requireNamespace } from "../known-namespace.ts";
import { onStore } from "../on-store.ts";
import { principalOf } from "../principal.ts";
import { printChange } from "../print.ts";
import { namespaceText } from "../show-namespace.ts";

export const namespaceDelete: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .argument("<name>", "the namespace; its data stays until it is purged")
      .addHelpText("after", examples("zae-limiter namespace delete tenant-z --yes"))
      .addHelpText("after", "\nExit codes: 1 declined, 4 no such namespace.\n");
  },
  run: (context, options, [name = ""]) =>
    onStore(context, options, async (limiter) => {
      const before = await requireNamespace(limiter, name);
      if (name === "default") {
        throw new ValidationError(
          "namespace_default",
          "The namespace default cannot be deleted; delete its entities instead.",
        );
      }
      await confirmed(
        context,
        options,
        `Delete the namespace ${name}? Requests in it will fail; its data stays until it is purged.`,
      );
      const namespace =
        options.dryRun === true
          ? { ...before, status: "deleted" as const, deletedAtMs: Date.now() }
          : await limiter.deleteNamespace(name, principalOf(context, options));
      await printChange(context, options, namespace, () => namespaceText(namespace));
      return EXIT.done;
    }),
};
