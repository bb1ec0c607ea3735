import { existsSync } from "node:fs";
import { NotFoundError } from "../../domain/errors.ts";
import { logFile } from "../../local/engine-record.ts";
import { followFile } from "../../local/follow-file.ts";
import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { meantLogPort } from "../local-port.ts";

interface LocalLogsOptions extends GlobalOptions {
  readonly port?: string;
  readonly follow?: boolean;
  readonly tail?: string;
}

/** What the engine and its runner said. */
export const localLogs: CommandFile<LocalLogsOptions> = {
  endsByInterrupt: true,
  configure: (command) => {
    command
      .option("-f, --follow", "follow new lines until Ctrl-C")
      .option("--tail <n>", "only the last N lines; default: all")
      .option("--port <port>", "its port; default: the one that is running")
      .addHelpText("after", examples("zae-limiter local logs --tail 20"));
  },
  run: async ({ output, interrupted }, options) => {
    const { follow = false, tail } = options;
    if (tail !== undefined && !/^\d{1,9}$/.test(tail)) {
      throw new UsageError(`--tail is "${tail}"; give a whole number of lines.`);
    }
    const path = logFile(meantLogPort(options.port));
    if (!existsSync(path)) {
      throw new NotFoundError("log_not_found", `There is no log at ${path}; \`zae-limiter local up\` starts one.`);
    }
    const lines = tail === undefined ? undefined : Number(tail);
    const decoder = new TextDecoder();
    for await (const piece of followFile({ path, tail: lines, goesOn: follow, signal: interrupted })) {
      if (output.isClosed) break;
      await output.write(decoder.decode(piece, { stream: true }));
    }
    return EXIT.done;
  },
};
