import type { CommandContext, GlobalOptions } from "./command.ts";

/** Something that takes long says so, on stderr, if that is a terminal. */
export interface Progress {
  /** What has been done so far. */
  tell(text: string): void;
  end(): void;
}

const SILENT: Progress = { tell: () => {}, end: () => {} };

/** Shows itself once a second has passed. */
export function progressOf({ output, terminal }: CommandContext, { quiet }: GlobalOptions): Progress {
  if (!terminal.stderr || quiet === true) return SILENT;
  const beganMs = performance.now();
  let shownMs = beganMs;
  let isShown = false;
  return {
    tell: (text) => {
      const nowMs = performance.now();
      if (nowMs - beganMs < 1_000 || (isShown && nowMs - shownMs < 100)) return;
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
