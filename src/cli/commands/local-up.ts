import type { EngineStatus } from "../../local/engine.ts";
import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { LOCAL_PORT, portOf } from "../local-port.ts";
import { isJson, printValue } from "../print.ts";

interface LocalUpOptions extends GlobalOptions {
  readonly port: string;
  readonly engine?: string;
  readonly data?: string;
}

/** Starts DynamoDB Local in the background, unless it runs. */
export const localUp: CommandFile<LocalUpOptions> = {
  configure: (command) => {
    command
      .option("--port <port>", "port to listen on, on this machine only", String(LOCAL_PORT))
      .option("--engine <engine>", "java or docker; default: java if installed")
      .option("--data <folder>", "keep the tables in this folder; default: in memory, lost when it stops")
      .addHelpText(
        "after",
        examples(
          "zae-limiter local up",
          'eval "$(zae-limiter local env)"',
          "zae-limiter local down",
          "zae-limiter local up --port 8001 --data .dynamodb && zae-limiter local down --port 8001",
        ),
      );
  },
  run: async (context, options) => {
    const { output, interrupted } = context;
    const isQuiet = isJson(options) || options.quiet === true;
    const { engine } = options;
    if (engine !== undefined && engine !== "java" && engine !== "docker") {
      throw new UsageError(`--engine is "${engine}"; give java or docker.`);
    }
    const { engineUp } = await import("../../local/engine.ts");
    const say = (sentence: string) => {
      if (!isQuiet) output.note(`${sentence}\n`);
    };
    const data = options.data || undefined;
    const { started, ...status } = await engineUp({
      ...{ port: portOf(options.port), engine, data, say, signal: interrupted },
    });
    if (!started && (engine ?? status.engine) !== status.engine) say(`It is running with ${status.engine} already.`);
    if (!started && data !== undefined && status.data === undefined)
      say("It is running without --data: tables are in memory.");
    await printValue(context, options, status, () => sentence(status, started));
    return EXIT.done;
  },
};

function sentence({ endpoint, engine, pid, data, log }: EngineStatus, started: boolean): string {
  const how = [engine, ...(pid === undefined ? [] : [`pid ${pid}`]), data ?? "in memory"].join(", ");
  const where = `DynamoDB Local ${started ? "is running" : "was running already"} at ${endpoint} (${how}).`;
  return `${where}\nLog: ${log}\nTo use it in this shell: eval "$(zae-limiter local env)"\n`;
}
