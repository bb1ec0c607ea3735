import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { meantPort } from "../local-port.ts";
import { jsonOf } from "../printable.ts";

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
export const localEnv: CommandFile<LocalEnvOptions> = {
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
