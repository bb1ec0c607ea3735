export { ConditionalLine, type LineCall, type LineFault, type LineOptions } from "../../test/kit/conditional-line.ts";
export {
  type ConditionalProcess,
  type ConditionalStore,
  type ConditionalWorld,
  conditionalWorld,
  openConditional,
} from "../../test/kit/conditional-store.ts";
export {
  type AppliedChange,
  ConditionalTable,
  type TableCounts,
  type TableOptions,
} from "../../test/kit/conditional-table.ts";
export { describeStore } from "../../test/kit/contract.ts";
export type { Gap, OpenStore } from "../../test/kit/contract-kit.ts";
export { ModelLimit } from "../../test/kit/model.ts";
export { ModelBucket } from "../../test/kit/model-bucket.ts";
export type { WriteKind } from "../../test/kit/model-period.ts";
export { type Fault, type FaultedCall, type FaultOptions, FaultStore } from "../testing/fault-store.ts";
export { SeededRandom } from "../testing/random.ts";
export { SimulatedClock, SkewedClock } from "../testing/simulated-clock.ts";
