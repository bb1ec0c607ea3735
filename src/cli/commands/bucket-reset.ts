import { ValidationError } from "../../domain/errors.ts";
import { checkIdempotencyKey } from "../../domain/idempotency.ts";
import { type CommandFile, examples, type GlobalOptions, repeated } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { allowUnknownOption, requireKnown } from "../known.ts";
import { onStore } from "../on-store.ts";
import { operationText } from "../operation-text.ts";
import { ownLevel } from "../own-level.ts";
import { principalOf } from "../principal.ts";
import { printChange } from "../print.ts";

interface BucketResetOptions extends GlobalOptions {
  readonly limit?: readonly string[];
  readonly idempotencyKey?: string;
  readonly allowUnknown?: boolean;
}

export const bucketReset: CommandFile<BucketResetOptions> = {
  configure: (command) => {
    command
      .argument("<entity>", "the entity")
      .argument("<resource>", "the resource")
      .option("-l, --limit <name>", "the limit; default: all; repeated", repeated)
      .option("--idempotency-key <key>", "repeating the call with the same key within 30 days has no effect")
      .addOption(allowUnknownOption())
      .addHelpText("after", examples("zae-limiter bucket reset key-1 gpt-4 -l tpm"))
      .addHelpText("after", "\nExit codes: 4 no such entity or resource, or no limits apply.\n");
  },
  run: (context, options, [entityId = "", resource = ""]) =>
    onStore(context, options, async (limiter) => {
      const { limit: limits, idempotencyKey, allowUnknown } = options;
      if (idempotencyKey !== undefined) checkIdempotencyKey(idempotencyKey);
      await requireKnown(limiter, { entityId, resource, allowUnknown });
      if (options.dryRun === true) {
        const own = await ownLevel(limiter, { entityId, resource });
        const known = own.limits.map(({ limit }) => limit);
        const unknown = limits?.find((name) => !known.includes(name));
        if (unknown !== undefined) {
          throw new ValidationError(
            "limit_unknown",
            `No limit "${unknown}" applies to ${entityId} on ${resource}; known limits: ${known.join(", ")}.`,
          );
        }
        const planned = { entityId, resource, amounts: {}, repeated: false };
        await printChange(context, options, planned, () => operationText(planned, "reset"));
        return EXIT.done;
      }
      const result = await limiter.resetBucket({
        ...{ entityId, resource, ...principalOf(context, options) },
        ...(limits === undefined ? {} : { limits }),
        ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
      });
      await printChange(context, options, result, () => operationText(result, "reset"));
      return EXIT.done;
    }),
};
