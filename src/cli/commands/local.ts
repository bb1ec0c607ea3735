import { existsSync } from "node:fs";
import { NotFoundError } from "../../domain/names/errors.ts";
import type { EngineStatus } from "../../local/engine.ts";
import { endpointOf, logFile, loggedPorts, recordedPorts } from "../../local/engine-record.ts";
import { followFile } from "../../local/follow-file.ts";
import { type CommandGroup, command } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { isJson, printValue } from "../print.ts";
import { jsonOf } from "../table.ts";
import { choiceOf } from "../values.ts";

/** `local up` starts an engine there unless it is told otherwise. */
const LOCAL_PORT = 8000;

const THE_PORT = ["--port <port>", "its port; default: the one that is running"] as const;

/** Starts DynamoDB Local in the background, unless it runs. */
const localUp = command({
  options: [
    ["--port <port>", "port to listen on, on this machine only", { default: String(LOCAL_PORT) }],
    ["--engine <engine>", "java or docker; default: java if installed"],
    ["--data <folder>", "keep the tables in this folder; default: in memory, lost when it stops"],
  ],
  examples: [
    "local up",
    'eval "$(zae-limiter local env)"',
    "local down",
    "zae-limiter local up --port 8001 --data .dynamodb && zae-limiter local down --port 8001",
  ],
  run: async (context, options) => {
    const { output, interrupted } = context;
    const isQuiet = isJson(context) || context.options.quiet === true;
    const engine = options.engine === undefined ? undefined : choiceOf(options.engine, ["java", "docker"], "--engine");
    const { engineUp } = await import("../../local/engine.ts");
    const say = (sentence: string) => {
      if (!isQuiet) output.note(`${sentence}\n`);
    };
    const data = options.data || undefined;
    const { started, ...status } = await engineUp({
      port: portOf(options.port),
      engine,
      data,
      say,
      signal: interrupted,
    });
    if (!started && (engine ?? status.engine) !== status.engine) say(`It is running with ${status.engine} already.`);
    if (!started && data !== undefined && status.data === undefined)
      say("It is running without --data: tables are in memory.");
    return printValue(
      context,
      status,
      () =>
        `${runsText(status, started ? "is running" : "was running already")}\n` +
        'To use it in this shell: eval "$(zae-limiter local env)"\n',
    );
  },
});

function runsText({ endpoint, engine, pid, data, log }: EngineStatus, runs: string): string {
  const how = [engine, ...(pid === undefined ? [] : [`pid ${pid}`]), data ?? "in memory"].join(", ");
  return `DynamoDB Local ${runs} at ${endpoint} (${how}).\nLog: ${log}`;
}

/** Ends the engine that `local up` started, if one runs. */
const localDown = command({
  options: [THE_PORT],
  examples: ["local down"],
  run: async (context, options) => {
    const { engineDown } = await import("../../local/engine.ts");
    const { ended, ...status } = await engineDown(meantPort(options.port));
    const text = ended ? `DynamoDB Local at ${status.endpoint} is stopped.` : "DynamoDB Local was not running.";
    return printValue(context, status, () => `${text}\n`);
  },
});

/** Shows whether the engine that `local up` started runs; ends with 1 if not. */
const localStatus = command({
  options: [THE_PORT],
  examples: ["local status"],
  notes: ["Exit codes: 1 it is not running."],
  run: async (context, options) => {
    const { engineStatus } = await import("../../local/engine.ts");
    const status = await engineStatus(meantPort(options.port));
    const { running } = status;
    const text = running
      ? runsText(status, "is running")
      : "DynamoDB Local is not running; start it with `zae-limiter local up`.";
    await printValue(context, status, () => `${text}\n`);
    return running ? EXIT.done : EXIT.refused;
  },
});

const LINE_OF: Readonly<Record<string, (name: string, value: string) => string>> = {
  eval: (name, value) => `export ${name}=${value}`,
  direnv: (name, value) => `export ${name}=${value}`,
  powershell: (name, value) => `$env:${name} = '${value}'`,
};

/** Lines that send the AWS SDK and this tool to the local engine. */
const localEnv = command({
  options: [
    ["--port <port>", "its port; default: the one that is running, else 8000"],
    ["--format <format>", "eval, direnv or powershell", { default: "eval" }],
  ],
  examples: ["local env --format direnv >> .envrc", 'eval "$(zae-limiter local env)"'],
  run: async ({ output, options: { json } }, options) => {
    const line = Object.hasOwn(LINE_OF, options.format) ? LINE_OF[options.format] : undefined;
    if (line === undefined) {
      throw new UsageError(`--format is "${options.format}"; give eval, direnv or powershell.`);
    }
    const variables = {
      AWS_ENDPOINT_URL_DYNAMODB: endpointOf(meantPort(options.port)),
      AWS_REGION: "us-east-1",
      AWS_ACCESS_KEY_ID: "local",
      AWS_SECRET_ACCESS_KEY: "local",
    };
    if (json === true) await output.write(`${jsonOf(variables)}\n`);
    else for (const [name, value] of Object.entries(variables)) await output.write(`${line(name, value)}\n`);
    return EXIT.done;
  },
});

/** Shows the log of the engine and its runner. */
const localLogs = command({
  endsByInterrupt: true,
  options: [
    ["-f, --follow", "follow new lines until Ctrl-C"],
    ["--tail <n>", "only the last N lines; default: all"],
    THE_PORT,
  ],
  examples: ["local logs --tail 20"],
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
});

function portOf(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port >= 1 && port <= 65_535) return port;
  throw new UsageError(`--port is "${text}"; give a number from 1 to 65535, such as ${LOCAL_PORT}.`);
}

/** The port of the engine that is meant: the given one, else that of the only engine. */
function meantPort(text: string | undefined): number {
  return text === undefined ? only(recordedPorts()) : portOf(text);
}

/** The port of the log that is meant. Engines that run come before those that have ended. */
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
