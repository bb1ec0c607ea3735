import { checkKey } from "../../domain/lease/idempotency.ts";
import { given } from "../../domain/names/given.ts";
import type { CorrectionRequest, CorrectionResult } from "../../entry/index.ts";
import { ALLOW_UNKNOWN, ALSO, BUCKET_ARGUMENTS, type CommandGroup } from "../command.ts";
import { UsageError } from "../exit-code.ts";
import { requireAllKnown } from "../known.ts";
import { change } from "../plain-commands.ts";
import { alsoOf, tokensOf } from "../values.ts";

interface CorrectionOptions {
  readonly amount?: readonly string[];
  readonly also?: readonly string[];
  readonly idempotencyKey?: string;
  readonly allowUnknown?: boolean;
}

/** The amounts to charge or give back, and whether the entity has to be known. */
type Correction = CorrectionRequest & { readonly allowUnknown: boolean | undefined };

const OPTIONS = [
  ["-a, --amount <name=n>", "how much of a measure; repeated or with commas", "list"],
  ALSO,
  ["--idempotency-key <key>", "repeating the call with the same key within a day has no effect"],
  ALLOW_UNKNOWN,
] as const;
const NOTES = [
  "The answer has the amounts of the entity itself on the resource.",
  "Exit codes: 4 no such entity or resource, or no limits apply.",
];

function correctionOf(options: CorrectionOptions, [entityId = "", resource = ""]: readonly string[]): Correction {
  const { amount, idempotencyKey, allowUnknown } = options;
  if (amount === undefined) throw new UsageError("No amount is given; give -a NAME=N, such as -a tpm=500.");
  if (idempotencyKey !== undefined) checkKey(idempotencyKey);
  const also = alsoOf(options.also);
  return { entityId, resource, amounts: tokensOf(amount, "-a"), ...given({ also, idempotencyKey }), allowUnknown };
}

function correctionText({ entityId, resource, amounts, repeated }: CorrectionResult, what: string): string {
  if (repeated) return `The idempotency key was used before; ${entityId} on ${resource} is unchanged.\n`;
  const parts = Object.entries(amounts).map(([measure, tokens]) => `${tokens} ${measure}`);
  return `${entityId} on ${resource} ${what} ${parts.join(", ")}.\n`;
}

export const CORRECTION_COMMANDS: CommandGroup = {
  "bucket charge": change({
    arguments: BUCKET_ARGUMENTS,
    options: OPTIONS,
    examples: ["bucket charge key-1 gpt-4 -a tpm=500 --idempotency-key report-17"],
    notes: NOTES,
    read: (options, args) => correctionOf(options, args),
    before: (limiter, asked) => requireAllKnown(limiter, asked),
    plan: (_, { entityId, resource, amounts }) => ({ entityId, resource, amounts: wholeOf(amounts), repeated: false }),
    make: (limiter, { allowUnknown: _, ...asked }) => limiter.charge(asked),
    text: (result) => correctionText(result, "was charged"),
  }),
  "bucket give-back": change({
    arguments: BUCKET_ARGUMENTS,
    options: OPTIONS,
    examples: ["bucket give-back key-1 gpt-4 -a tpm=500"],
    notes: [...NOTES, "No limit is lifted above its capacity, and no quota above what its period has used."],
    read: (options, args) => correctionOf(options, args),
    before: (limiter, asked) => requireAllKnown(limiter, asked),
    plan: async (limiter, { entityId, resource, amounts }) => {
      const levels = await limiter.available({ entityId, resource });
      const missing = (measure: string) =>
        levels.flatMap((one) =>
          one.entityId === entityId && one.counts === measure ? [one.capacity - one.available] : [],
        );
      const back = Object.entries(wholeOf(amounts)).map(
        ([measure, tokens]) => [measure, Math.min(tokens, Math.max(0, ...missing(measure)))] as const,
      );
      return { entityId, resource, amounts: Object.fromEntries(back), repeated: false };
    },
    make: (limiter, { allowUnknown: _, ...asked }) => limiter.giveBack(asked),
    text: (result) => correctionText(result, "got back"),
  }),
};

function wholeOf(amounts: CorrectionRequest["amounts"]): Readonly<Record<string, number>> {
  return Object.fromEntries(Object.entries(amounts).map(([measure, tokens = 0]) => [measure, tokens]));
}
