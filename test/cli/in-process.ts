import { run } from "../../src/cli/run.ts";

export interface RanHere {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface HostOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** What is typed at a question, on a terminal. Absent: there is none. */
  readonly answer?: string;
  /** What happens while the question stands there. */
  readonly whileAsked?: () => Promise<unknown>;
  /** Hears what is said on stderr, on a terminal. */
  readonly onNote?: (text: string) => void;
  /** The reader of the answer leaves after so many writes. */
  readonly readerLeavesAfter?: number;
}

/** Runs a command line in this process: many cases, no process each. */
export async function here(args: readonly string[], options: HostOptions = {}): Promise<RanHere> {
  const { env = {}, answer, whileAsked, onNote, readerLeavesAfter = Number.POSITIVE_INFINITY } = options;
  let stdout = "";
  let stderr = "";
  let writes = 0;
  const isTerminal = answer !== undefined;
  const code = await run(args, {
    env,
    output: {
      write: async (text) => {
        writes += 1;
        stdout += text;
      },
      note: (text) => {
        stderr += text;
        onNote?.(text);
      },
      get isClosed() {
        return writes >= readerLeavesAfter;
      },
    },
    terminal: {
      stdin: isTerminal,
      stdout: isTerminal,
      stderr: isTerminal,
      columns: isTerminal ? 80 : undefined,
      rows: isTerminal ? 24 : undefined,
      ask: async (question) => {
        stderr += question;
        await whileAsked?.();
        return answer;
      },
    },
  });
  return { code, stdout, stderr };
}
