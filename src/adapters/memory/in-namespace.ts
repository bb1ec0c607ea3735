import type { AuditEvent } from "../../domain/audit.ts";
import { type ChangeTime, numberOfGeneration } from "../../domain/change-number.ts";
import { LimiterError } from "../../domain/errors.ts";
import { namespaceNotActive } from "../../domain/namespace.ts";
import { dataOf, type MemoryData, type NamespaceData } from "./data.ts";

/** A part of the store in one namespace. */
export abstract class InNamespace {
  protected readonly all: MemoryData;
  protected readonly data: NamespaceData;
  readonly #namespaceId: string;

  constructor(all: MemoryData, namespaceId: string) {
    this.all = all;
    this.data = dataOf(all, namespaceId);
    this.#namespaceId = namespaceId;
  }

  protected requireActive(): void {
    requireActive(this.all, this.#namespaceId);
  }

  /** When the change of an event is made that `changed` is called for next. */
  protected timeOf({ atMs }: AuditEvent): ChangeTime {
    const { countsChanges, generation } = this.all;
    return countsChanges ? { atMs, number: numberOfGeneration(generation + 1) } : { atMs };
  }

  /** Configuration, or who it is for, was changed: whatever was planned before is stale. */
  protected changed(event: AuditEvent): void {
    this.data.audit.push(event);
    this.all.generation++;
  }
}

export function requireOpen({ closed }: MemoryData): void {
  if (closed) throw new LimiterError("closed", "The memory store is closed; open a new limiter.");
}

/** Throws when the namespace was deleted: nothing may be written into it any more. */
export function requireActive(all: MemoryData, namespaceId: string): void {
  requireOpen(all);
  if (all.namespaces.get(namespaceId)?.status === "active") return;
  throw namespaceNotActive(namespaceId);
}
