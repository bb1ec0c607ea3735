import { testMutants } from "./catching.ts";
import { CORRECTION_ITEM_MUTANTS, CORRECTION_MUTANTS } from "./correction-mutants.ts";
import { hasCorrections } from "./correction-profile.ts";

testMutants(CORRECTION_MUTANTS, {
  ...{ store: "memory", seedsMax: 4_000, among: hasCorrections },
  caughtBy: {
    "a give-back without a lease that lifts a limit above its capacity": 14,
    "a give-back without a lease of what the period before has used": 48,
    "a give-back without a lease that gives less than is missing": 14,
    "a give-back without a lease that is made again after its answer was lost": 694,
    "a charge without a lease that is made again after its answer was lost": 1_986,
    "a correction of what is let through by a bypass": 833,
    "a key of corrections that nobody remembers": 14,
  },
});

testMutants(CORRECTION_ITEM_MUTANTS, {
  ...{ store: "conditional", seedsMax: 4_000, among: hasCorrections },
  caughtBy: {
    "a give-back without a lease that does not look at the room there is": 371,
    "a give-back without a lease that is made again after its answer was lost": 48,
  },
});
