import { testMutants } from "./catching.ts";
import { CHANGE_MUTANTS } from "./change-mutants.ts";
import { CODE_MUTANTS, COUNTED_MUTANTS, QUESTION_MUTANTS, TOLD_OFF_MUTANTS } from "./code-mutants.ts";
import { hasEnds } from "./ends.ts";
import { ENDS_MUTANTS } from "./ends-mutants.ts";
import { FLOOR_MUTANTS } from "./floor-mutants.ts";
import { KIND_MUTANTS } from "./kind-mutants.ts";
import { MUTANTS } from "./mutants.ts";
import { hasFloors, hasThresholds } from "./profile.ts";
import { SHADOW_MUTANTS } from "./shadow-mutants.ts";
import { hasShadows } from "./shadow-profile.ts";
import { THRESHOLD_MUTANTS } from "./threshold-mutants.ts";
import { TOTAL_MUTANTS } from "./total-mutants.ts";

/** The seeds that found these bugs when this was written; where worlds are drawn differently since, the others are searched. */
const CAUGHT_BY: Readonly<Record<string, number>> = {
  "changed limits that count from the next request on": 40,
  "a give-back that goes by the limits of before a change": 27,
  "a give-back that wakes no one who waits": 63,
  "a settle that leaves out what is not stored yet": 33,
  "a take that is tried again after its answer was lost": 24,
  "a give-back that is tried again after its answer was lost": 64,
  "a refusal that the engine remembers for longer than it may": 254,
  "time before a window that drips at the window's rate": 183,
  "a give-back into the next period": 50,
  "a top-up that survives the reset": 22,
  "a top-up that is made twice for one key": 13,
  "a session window that a refused take opens": 15,
  "a soft limit that refuses": 45,
  "a change that is lost when another one follows": 13,
  "a quota of another amount that keeps its balance": 13,
  "a quota that forgets what was used when it is lowered": 19,
  "a quota of another amount that loses what was bought": 213,
  "a bypass that debits": 37,
  "a disabled resource that admits": 32,
  "a second resource that is kept when the first refused": 69,
  "a refusal that does not know what was bought": 402,
  "a refusal that promises the tokens too early": 20,
  "a total that only requests for one of the resources are charged to": 16,
};

testMutants(
  { ...MUTANTS, ...KIND_MUTANTS, ...CHANGE_MUTANTS, ...TOTAL_MUTANTS, ...CODE_MUTANTS, ...QUESTION_MUTANTS },
  { store: "memory", seedsMax: 450, caughtBy: CAUGHT_BY },
);

const OLD_CAUGHT_BY: Readonly<Record<string, number>> = {
  "a question that does not ask whether anything changed": 26,
  "an amount that is said never to fit by what is remembered": 38,
};

testMutants(COUNTED_MUTANTS, { store: "straight", seedsMax: 400, caughtBy: OLD_CAUGHT_BY });
testMutants(TOLD_OFF_MUTANTS, { store: "conditional", seedsMax: 400, caughtBy: OLD_CAUGHT_BY });

const THRESHOLDS_CAUGHT_BY: Readonly<Record<string, number>> = {
  "a threshold that is told twice": 18,
  "a threshold that nobody is told of": 70,
  "a take that leaves no mark": 18,
};

testMutants(THRESHOLD_MUTANTS, {
  ...{ store: "memory", seedsMax: 4_000, among: hasThresholds, caughtBy: THRESHOLDS_CAUGHT_BY },
});

const FLOORS_CAUGHT_BY: Readonly<Record<string, number>> = {
  "a floor of one percent less": 29,
  "waiters that are served first come only, whatever they must leave": 623,
};

testMutants(FLOOR_MUTANTS, { store: "memory", seedsMax: 4_000, among: hasFloors, caughtBy: FLOORS_CAUGHT_BY });

const SHADOWS_CAUGHT_BY: Readonly<Record<string, number>> = {
  "a shadow that is asked without its floor": 40,
  "charges that are published as they were asked for": 89,
  "a shadow that refuses": 26,
  "a lease that is not told what it passed by": 26,
};

testMutants(SHADOW_MUTANTS, { store: "memory", seedsMax: 4_000, among: hasShadows, caughtBy: SHADOWS_CAUGHT_BY });

const ENDS_CAUGHT_BY: Readonly<Record<string, number>> = {
  "an end that comes a millisecond late": 1674,
  "an end that nobody remembers with its limits": 42,
  "an end that a bucket meets with every take": 68,
  "a wait that goes past an end": 756,
  "a base that is set under what has an end, and ends it": 705,
};

testMutants(ENDS_MUTANTS, { store: "memory", seedsMax: 4_000, among: hasEnds, caughtBy: ENDS_CAUGHT_BY });
