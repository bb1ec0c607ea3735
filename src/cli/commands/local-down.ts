import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { meantPort } from "../local-port.ts";
import { printValue } from "../print.ts";

interface LocalDownOptions extends GlobalOptions {
  readonly port?: string;
}

/** Ends the engine that `local up` started; where none runs there is nothing to do. */
export const localDown: CommandFile<LocalDownOptions> = {
  configure: (command) => {
    command
      .option("--port <port>", "its port; default: the one that is running")
      .addHelpText("after", examples("zae-limiter local down"));
  },
  run: async (context, options) => {
    const { engineDown } = await import("../../local/engine.ts");
    const { ended, ...status } = await engineDown(meantPort(options.port));
    const text = ended ? `DynamoDB Local at ${status.endpoint} is stopped.` : "DynamoDB Local was not running.";
    await printValue(context, options, status, () => `${text}\n`);
    return EXIT.done;
  },
};
