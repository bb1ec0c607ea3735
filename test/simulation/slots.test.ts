import { testMutants } from "./catching.ts";
import { SLOT_ITEM_MUTANTS, SLOT_STORE_MUTANTS } from "./slot-mutants.ts";
import { hasSlots } from "./slot-profile.ts";

testMutants(SLOT_STORE_MUTANTS, {
  ...{ store: "memory", seedsMax: 1_500, among: hasSlots },
  caughtBy: {
    "a clock behind the epoch that is believed": 115,
    "a renewal to an earlier slice": 73,
    "a ticket that ends later than its slice": 17,
    "a give-back by its place alone": 122,
    "a give-back without the beginning": 1_319,
    "a give-back of settled slots that is not written": 17,
    "a renewal that is told and not written": 73,
    "a renewal that leaves the slot where it was, too": 73,
    "a settle that keeps the slot": 38,
  },
});

testMutants(SLOT_ITEM_MUTANTS, {
  ...{ store: "conditional", seedsMax: 1_500, among: hasSlots },
  caughtBy: {
    "a give-back by its place alone": 38,
    "a renewal that is told and not written": 73,
  },
});
