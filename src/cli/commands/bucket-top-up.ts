import { topUpAmounts, topUpTooLarge } from "../../domain/amounts.ts";
import { bucketKey } from "../../domain/bucket-key.ts";
import { hasRoomFor } from "../../domain/bucket-operations.ts";
import { checkIdempotencyKey } from "../../domain/idempotency.ts";
import { type CommandFile, examples, type GlobalOptions, repeated } from "../command.ts";
import type { CommandLimiter } from "../command-limiter.ts";
import { EXIT, UsageError } from "../exit-code.ts";
import { allowUnknownOption, requireKnown } from "../known.ts";
import { onStore } from "../on-store.ts";
import { operationText } from "../operation-text.ts";
import { ownLevel } from "../own-level.ts";
import { principalOf } from "../principal.ts";
import { printChange } from "../print.ts";
import { tokensOf } from "../values.ts";

interface BucketTopUpOptions extends GlobalOptions {
  readonly amount?: readonly string[];
  readonly idempotencyKey?: string;
  readonly allowUnknown?: boolean;
}

export const bucketTopUp: CommandFile<BucketTopUpOptions> = {
  configure: (command) => {
    command
      .argument("<entity>", "the entity")
      .argument("<resource>", "the resource")
      .option("-a, --amount <name=n>", "how much to add to a limit; repeated or with commas", repeated)
      .option("--idempotency-key <key>", "repeating the call with the same key within 30 days has no effect")
      .addOption(allowUnknownOption())
      .addHelpText("after", examples("zae-limiter bucket top-up key-1 gpt-4 -a tpm=5000 --idempotency-key order-17"))
      .addHelpText("after", "\nExit codes: 4 no such entity or resource, or no limits apply.\n");
  },
  run: (context, options, [entityId = "", resource = ""]) => {
    const { amount, idempotencyKey, allowUnknown } = options;
    if (amount === undefined) throw new UsageError("No amount is given; give -a NAME=N, such as -a tpm=5000.");
    const amounts = tokensOf(amount, "-a");
    if (idempotencyKey !== undefined) checkIdempotencyKey(idempotencyKey);
    return onStore(context, options, async (limiter) => {
      await requireKnown(limiter, { entityId, resource, allowUnknown });
      const result =
        options.dryRun === true
          ? await planned(limiter, { entityId, resource, amounts })
          : await limiter.topUp({
              ...{ entityId, resource, amounts, ...principalOf(context, options) },
              ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
            });
      await printChange(context, options, result, () => operationText(result, "topped up"));
      return EXIT.done;
    });
  },
};

/** What each limit would gain: a limit that drips has no room above its capacity. */
async function planned(
  limiter: CommandLimiter,
  { entityId, resource, amounts }: { entityId: string; resource: string; amounts: Readonly<Record<string, number>> },
) {
  const { limits: held } = await ownLevel(limiter, { entityId, resource });
  const bucket = bucketKey(entityId, resource);
  const checked = topUpAmounts(
    amounts,
    bucket,
    held.map(({ limit }) => ({ name: limit })),
  );
  const gained = checked.map(({ limit: name }) => {
    const tokens = amounts[name] ?? 0;
    const { kind, capacity = 0, available = 0 } = held.find(({ limit }) => limit === name) ?? {};
    if (kind === "drip") return [name, Math.min(tokens, Math.max(0, capacity - available))] as const;
    if (!hasRoomFor(capacity * 1000, tokens * 1000)) throw topUpTooLarge(name, bucket, tokens);
    return [name, tokens] as const;
  });
  return { entityId, resource, amounts: Object.fromEntries(gained), repeated: false };
}
