import { blankIntent, type Intent, type IntentOptions, NO_USAGE } from "./intent.ts";
import { type Job, newestOf } from "./job.ts";

/** Only installs limits on an item; the claim that they came with is refused, or takes nothing. */
export function installLimitsIntent(
  job: Job,
  { readingMs, nonce, configConfirmed, sheeted }: Omit<IntentOptions, "birth" | "guesses" | "ignoreImageShortage">,
): Intent {
  const parts = [{ of: job.of, kind: job.kind, amounts: [] }];
  const usage = { ...NO_USAGE, sheeted };
  return { ...blankIntent(readingMs), nonce, configConfirmed, install: newestOf([job]), usage, parts };
}
