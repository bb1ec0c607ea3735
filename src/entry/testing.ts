export { ConditionalLine, type LineCall, type LineFault, type LineOptions } from "../testing/conditional-line.ts";
export {
  type ConditionalProcess,
  type ConditionalStore,
  type ConditionalWorld,
  conditionalWorld,
  openConditional,
} from "../testing/conditional-store.ts";
export {
  type AppliedChange,
  ConditionalTable,
  type TableCounts,
  type TableOptions,
} from "../testing/conditional-table.ts";
export { describeStore } from "../testing/contract.ts";
export type { Gap, OpenStore } from "../testing/contract-kit.ts";
export { type Fault, type FaultedCall, type FaultOptions, FaultStore } from "../testing/fault-store.ts";
export { ModelLimit } from "../testing/model.ts";
export { ModelBucket } from "../testing/model-bucket.ts";
export type { WriteKind } from "../testing/model-period.ts";
export { SeededRandom } from "../testing/random.ts";
export { SimulatedClock, SkewedClock } from "../testing/simulated-clock.ts";
