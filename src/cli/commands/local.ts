import { existsSync } from "node:fs";
import { NotFoundError } from "../../domain/names/errors.ts";
import type { EngineStatus } from "../../local/engine.ts";
import { logFile, loggedPorts, recordedPorts } from "../../local/engine-record.ts";
import { followFile } from "../../local/follow-file.ts";
import { type CommandFile, type CommandGroup, examples, type GlobalOptions } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { isJson, printValue } from "../print.ts";
import { jsonOf } from "../printable.ts";

interface LocalUpOptions extends GlobalOptions {
  readonly port: string;
  readonly engine?: string;
  readonly data?: string;
}

/** Starts DynamoDB Local in the background, unless it runs. */
const localUp: CommandFile<LocalUpOptions> = {
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

interface LocalDownOptions extends GlobalOptions {
  readonly port?: string;
}

/** Ends the engine that `local up` started; where none runs there is nothing to do. */
const localDown: CommandFile<LocalDownOptions> = {
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

interface LocalStatusOptions extends GlobalOptions {
  readonly port?: string;
}

/** Whether the engine that `local up` started runs; ends with 1 if not. */
const localStatus: CommandFile<LocalStatusOptions> = {
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

interface LocalEnvOptions extends GlobalOptions {
  readonly port?: string;
  readonly format: string;
}

const LINE_OF: Readonly<Record<string, (name: string, value: string) => string>> = {
  eval: (name, value) => `export ${name}=${value}`,
  direnv: (name, value) => `export ${name}=${value}`,
  powershell: (name, value) => `$env:${name} = '${value}'`,
};

/** Lines that send the AWS SDK and this tool to the local engine. */
const localEnv: CommandFile<LocalEnvOptions> = {
  configure: (command) => {
    command
      .option("--port <port>", "its port; default: the one that is running, else 8000")
      .option("--format <format>", "eval, direnv or powershell", "eval")
      .addHelpText(
        "after",
        examples("zae-limiter local env --format direnv >> .envrc", 'eval "$(zae-limiter local env)"'),
      );
  },
  run: async ({ output }, options) => {
    const line = Object.hasOwn(LINE_OF, options.format) ? LINE_OF[options.format] : undefined;
    if (line === undefined) {
      throw new UsageError(`--format is "${options.format}"; give eval, direnv or powershell.`);
    }
    const port = meantPort(options.port);
    const { endpointOf } = await import("../../local/engine-answer.ts");
    const variables = {
      AWS_ENDPOINT_URL_DYNAMODB: endpointOf(port),
      AWS_REGION: "us-east-1",
      AWS_ACCESS_KEY_ID: "local",
      AWS_SECRET_ACCESS_KEY: "local",
    };
    if (options.json === true) await output.write(`${jsonOf(variables)}\n`);
    else for (const [name, value] of Object.entries(variables)) await output.write(`${line(name, value)}\n`);
    return EXIT.done;
  },
};

interface LocalLogsOptions extends GlobalOptions {
  readonly port?: string;
  readonly follow?: boolean;
  readonly tail?: string;
}

/** What the engine and its runner said. */
const localLogs: CommandFile<LocalLogsOptions> = {
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

/** Where `local up` starts an engine unless it is told otherwise. */
const LOCAL_PORT = 8000;

function portOf(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port >= 1 && port <= 65_535) return port;
  throw new UsageError(`--port is "${text}"; give a number from 1 to 65535, such as ${LOCAL_PORT}.`);
}

/** The engine that is meant: at the port given, else the one that there is. */
function meantPort(text: string | undefined): number {
  return text === undefined ? only(recordedPorts()) : portOf(text);
}

/** The log that is meant; of an engine that runs, rather than of one that has ended. */
function meantLogPort(text: string | undefined): number {
  if (text !== undefined) return portOf(text);
  const running = recordedPorts();
  return only(running.length > 0 ? running : loggedPorts());
}

function only(ports: readonly number[]): number {
  const [first = LOCAL_PORT] = ports;
  if (ports.length <= 1) return first;
  if (ports.includes(LOCAL_PORT)) return LOCAL_PORT;
  throw new UsageError(`DynamoDB Local is running on the ports ${ports.join(", ")}; choose one with --port.`);
}

export const LOCAL_COMMANDS: CommandGroup = {
  "local up": localUp,
  "local down": localDown,
  "local status": localStatus,
  "local env": localEnv,
  "local logs": localLogs,
};
