import type { Caller } from "./drive.ts";

/** A caller that gets an answer in its time, while the work goes on after it. */
export class WaitingCaller implements Caller {
  readonly untilMs: number;
  /** Resolves when the work takes longer than the caller waits; perhaps never. */
  readonly left: Promise<void>;
  readonly leave: () => void;

  constructor(untilMs: number) {
    this.untilMs = untilMs;
    let leave = () => {};
    this.left = new Promise((resolve) => {
      leave = resolve;
    });
    this.leave = leave;
  }
}
