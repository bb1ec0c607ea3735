/** What may be done with a stack in a status of CloudFormation's. */
type StackCondition =
  /** It works, whatever became of its last change. */
  | "ready"
  /** It is being changed by somebody. */
  | "busy"
  /** It was never made, and can only be deleted. */
  | "unmade"
  /** A change could not be taken back, or a deletion not finished. */
  | "stuck"
  | "gone";

export function conditionOf(status: string): StackCondition {
  switch (status) {
    case "CREATE_COMPLETE":
    case "UPDATE_COMPLETE":
    case "UPDATE_ROLLBACK_COMPLETE":
    case "IMPORT_COMPLETE":
    case "IMPORT_ROLLBACK_COMPLETE":
      return "ready";
    case "ROLLBACK_COMPLETE":
    case "ROLLBACK_FAILED":
    case "CREATE_FAILED":
    case "REVIEW_IN_PROGRESS":
      return "unmade";
    case "DELETE_COMPLETE":
      return "gone";
    default:
      return status.endsWith("_IN_PROGRESS") ? "busy" : "stuck";
  }
}
