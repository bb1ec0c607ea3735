import { isMoney } from "../../domain/money-words.ts";
import type { UsageRequest, UsageSummary } from "../../entry/index.ts";
import { type CommandFile, examples } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { onStore } from "../on-store.ts";
import { fieldsText, printValue, unlessInterrupted } from "../print.ts";
import { countersText, noUsage, type UsageOptions, usageOptions, usageRequest, windowText } from "../usage-options.ts";

export const usageSummary: CommandFile<UsageOptions> = {
  configure: (command) => {
    usageOptions(command).addHelpText("after", examples("zae-limiter usage summary -e key-1 --from 7d"));
  },
  run: (context, options) => {
    const request = usageRequest(options, Date.now());
    return onStore(context, options, async (limiter) => {
      const summary = await unlessInterrupted(context, limiter.usageSummary(request));
      await printValue(context, options, summary, () => summaryText(summary, request));
      return EXIT.done;
    });
  },
};

function summaryText(summary: UsageSummary, request: UsageRequest): string {
  const { window } = request;
  const { snapshotCount, total, average, requests, overdrafts, bypassed, wouldRefuse, heldMs } = summary;
  const { firstWindowStartMs, lastWindowStartMs } = summary;
  if (firstWindowStartMs === undefined || lastWindowStartMs === undefined) return `${noUsage(request)}\n`;
  const rounded = Object.fromEntries(
    Object.entries(average).map(([limit, tokens]) => [
      limit,
      isMoney(limit) ? Math.round(tokens) : Math.round(tokens * 10) / 10,
    ]),
  );
  const some = (counted: Readonly<Record<string, number>>) => countersText(counted) || undefined;
  return fieldsText({
    from: windowText(window, firstWindowStartMs),
    to: windowText(window, lastWindowStartMs),
    windows: String(snapshotCount),
    requests: String(requests),
    total: countersText(total),
    average: countersText(rounded),
    overdrafts: some(overdrafts),
    bypassed: some(bypassed),
    wouldRefuse: some(wouldRefuse),
    heldMs: some(heldMs),
  });
}
