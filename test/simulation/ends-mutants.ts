import type { LevelConfig } from "../../src/domain/config/config.ts";
import { LinkOrigins } from "../../src/engine/acquire/link-origins.ts";
import type { Claim } from "../../src/ports/bucket-store.ts";
import { without } from "./code-mutants.ts";
import { inBuckets, inScope, type Mutant } from "./mutants.ts";
import { changedReply, overriding } from "./port.ts";

/** Bugs in limits that have an end. */
export const ENDS_MUTANTS: Readonly<Record<string, Mutant>> = {
  "an end that comes a millisecond late": {
    layer: "client",
    caughtAs: /does not follow from it|goes by configuration that is out of date/,
    spoil: resolvingTo(({ atMs, level }) => ({ atMs: atMs + 1, level })),
  },
  "an end that nobody remembers with its limits": {
    layer: "client",
    caughtAs: /does not follow from it|goes by configuration that is out of date/,
    spoil: resolvingTo(() => undefined),
  },
  "an end that is not in the history": {
    layer: "store",
    caughtAs: /from \d+ on (in total )?has the changes/,
    spoil: resolvingTo(({ atMs, level }) => ({ atMs, level: withoutEnds(level) })),
  },
  "an end that a bucket meets with every take": {
    layer: "store",
    caughtAs: /holds -\d+ millitokens more than the model/,
    spoil: inBuckets((buckets) => {
      let times = 0;
      return {
        take: (claims, context) =>
          buckets.take(
            claims.map((claim) => endingAgain(claim, ++times)),
            context,
          ),
      };
    }),
  },
  "a wait that goes past an end": {
    layer: "code",
    caughtAs: /was told to wait \d+ ms, and limits end in/,
    spoil: () => {
      const { of } = LinkOrigins.prototype;
      return without(LinkOrigins.prototype, "of", function (this: LinkOrigins, ...read: Parameters<typeof of>) {
        const { ends: _, ...origin } = of.apply(this, read);
        return origin;
      });
    },
  },
  "a base that is set under what has an end, and ends it": {
    layer: "store",
    caughtAs: /resolves to|has the changes/,
    spoil: inScope(({ config }) => ({
      config: overriding(config, {
        set: (scope, { keepOverride: _, ...change }, event) => config.set(scope, change, event),
      }),
    })),
  },
};

type Next = NonNullable<LevelConfig["next"]>;

/** Levels are read with other ends than they have. */
function resolvingTo(changed: (next: Next) => Next | undefined) {
  const spoiled = ({ next, ...level }: LevelConfig): LevelConfig => {
    const other = next && changed(next);
    return other === undefined ? level : { ...level, next: { ...other, level: spoiled(other.level) } };
  };
  return inScope(({ config }) => {
    const resolveSync = config.resolveSync?.bind(config);
    return {
      config: overriding(config, {
        resolve: (...asked) => changedReply(config.resolve(...asked), spoiled),
        ...(resolveSync === undefined
          ? {}
          : { resolveSync: (entityId: string, resource: string) => spoiled(resolveSync(entityId, resource)) }),
      }),
    };
  });
}

function withoutEnds(level: LevelConfig): LevelConfig {
  const made = (changes: LevelConfig["changes"]) => changes?.filter(({ isEnd }) => isEnd !== true);
  const { changes, totalsChanges, ...rest } = level;
  const [onResource, totals] = [made(changes), made(totalsChanges)];
  return {
    ...rest,
    ...(onResource === undefined ? {} : { changes: onResource }),
    ...(totals === undefined ? {} : { totalsChanges: totals }),
  };
}

/** The last two changes, what had an end and its end, as if they came once more. */
function endingAgain(claim: Claim, times: number): Claim {
  const { ended, changes = [], changeNumber, ...origin } = claim.origin;
  if (ended !== true || changeNumber === undefined || changes.length < 2) return claim;
  const again = changes.map((one, i) => (i < changes.length - 2 ? one : { ...one, number: one.number + times }));
  return { ...claim, origin: { ...origin, ended, changes: again, changeNumber: changeNumber + times } };
}
