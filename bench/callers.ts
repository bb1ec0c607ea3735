/** How many callers `concurrently` has. */
export const CALLERS = 64;

/** One caller, each call when the one before has its answer. */
export async function sequentially(calls: number, work: (i: number) => Promise<unknown>): Promise<void> {
  for (let i = 0; i < calls; i++) await work(i);
}

/** 64 callers, each as the one of `sequentially`. */
export async function concurrently(calls: number, work: (i: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const caller = async () => {
    while (next < calls) await work(next++);
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
}
