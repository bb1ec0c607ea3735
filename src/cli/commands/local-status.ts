import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { meantPort } from "../local-port.ts";
import { printValue } from "../print.ts";

interface LocalStatusOptions extends GlobalOptions {
  readonly port?: string;
}

/** Whether the engine that `local up` started runs; ends with 1 if not. */
export const localStatus: CommandFile<LocalStatusOptions> = {
  configure: (command) => {
    command
      .option("--port <port>", "its port; default: the one that is running")
      .addHelpText("after", `${examples("zae-limiter local status")}\nExit codes: 1 it is not running.\n`);
  },
  run: async (context, options) => {
    const { engineStatus } = await import("../../local/engine.ts");
    const status = await engineStatus(meantPort(options.port));
    const { running, endpoint, engine, pid, data, log } = status;
    const how = [engine, ...(pid === undefined ? [] : [`pid ${pid}`]), data ?? "in memory"].join(", ");
    const text = running
      ? `DynamoDB Local is running at ${endpoint} (${how}).\nLog: ${log}`
      : "DynamoDB Local is not running; start it with `zae-limiter local up`.";
    await printValue(context, options, status, () => `${text}\n`);
    return running ? EXIT.done : EXIT.refused;
  },
};
