import type { CommandContext, GlobalOptions } from "./command.ts";

/** Something that takes long says so, in one line on stderr, if that is a terminal. */
interface Progress {
  /** What has been done so far. */
  tell(text: string): void;
  end(): void;
}

export const SILENT: Progress = { tell: () => {}, end: () => {} };

/** Of what may take long: shows itself once a second has passed. */
export function progressOf(context: CommandContext, options: GlobalOptions): Progress {
  return progressLine(context, options, 1_000);
}

/** Of what certainly does: shows itself at once. */
export function progressFromStart(context: CommandContext, options: GlobalOptions): Progress {
  return progressLine(context, options, 0);
}

function progressLine({ output, terminal }: CommandContext, { quiet }: GlobalOptions, afterMs: number): Progress {
  if (!terminal.stderr || quiet === true) return SILENT;
  const beganMs = performance.now();
  let shownMs = beganMs;
  let isShown = false;
  return {
    tell: (text) => {
      const nowMs = performance.now();
      if (nowMs - beganMs < afterMs || (isShown && nowMs - shownMs < 100)) return;
      shownMs = nowMs;
      isShown = true;
      output.note(`\r\x1b[K${text}`);
    },
    end: () => {
      if (isShown) output.note("\r\x1b[K");
      isShown = false;
    },
  };
}
