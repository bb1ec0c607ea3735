import { CommandEnd } from "./exit-code.ts";

interface Interruptions {
  readonly signal: AbortSignal;
  /** Set once one came. */
  readonly exitCode: number | undefined;
  end(): void;
}

const SIGNALS = { SIGINT: 130, SIGTERM: 143 } as const;

/** The first one ends the command after what it has in hand; the second ends the process at once. */
export function interruptions(): Interruptions {
  const controller = new AbortController();
  let exitCode: number | undefined;
  const listeners = Object.entries(SIGNALS).map(([name, code]) => {
    const listener = () => {
      if (exitCode !== undefined) process.exit(code);
      exitCode = code;
      controller.abort(new CommandEnd({ code: "interrupted", message: `Interrupted by ${name}.`, exitCode: code }));
    };
    process.on(name, listener);
    return [name, listener] as const;
  });
  return {
    signal: controller.signal,
    get exitCode() {
      return exitCode;
    },
    end: () => {
      for (const [name, listener] of listeners) process.off(name, listener);
    },
  };
}
