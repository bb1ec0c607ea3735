import { testMutants } from "./catching.ts";
import { SLOT_ITEM_MUTANTS, SLOT_STORE_MUTANTS } from "./slot-mutants.ts";
import { hasSlots } from "./slot-profile.ts";

testMutants(SLOT_STORE_MUTANTS, {
  ...{ store: "memory", seedsMax: 1_500, among: hasSlots },
  caughtBy: {
    "a clock behind the epoch that is believed": 87,
    "a give-back by its place alone": 122,
    "a give-back without the beginning": 108,
  },
});

testMutants(SLOT_ITEM_MUTANTS, {
  ...{ store: "conditional", seedsMax: 1_500, among: hasSlots },
  caughtBy: {
    "a give-back by its place alone": 38,
    "a renewal that is told and not written": 73,
  },
});
