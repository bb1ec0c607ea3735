import type { Calendar } from "../../domain/limits/calendar.ts";
import type { Demand } from "../acquire/request.ts";
import type { StoreClient } from "../acquire/store-client.ts";
import type { EventPublisher } from "../limiter/event-publisher.ts";
import type { Refusal } from "../refusal/refusal.ts";
import type { LaterHold } from "./later-holds.ts";
import type { LeaseHolds } from "./lease-holds.ts";
import type { LeaseStatus } from "./lease-ledger.ts";
import type { Renewals } from "./renewals.ts";

/** What a lease needs of the limiter that gave it. */
export interface LeaseMaker {
  readonly client: StoreClient;
  readonly calendar: Calendar;
  now(): number;
  /** What becomes of more that a lease asks for during a fault of the store: let through for this reason, blocked or refused. */
  outage(claims: readonly Demand[], reason: string): string | "block" | Refusal;
  readonly publisher: EventPublisher;
  readonly renewals: Renewals;
}

/** What all resources of a lease share. */
export interface LeaseCore {
  readonly maker: LeaseMaker;
  status: LeaseStatus;
  /** The totals that it was settled with, as a text to compare a repeat by; undefined where there were none. */
  settledWith: string | undefined;
  degradedReason: string | false;
  /** The request's; otherwise made when it is first looked at. */
  signal: AbortSignal | undefined;
  /** Of a lease with slots, made when it is first asked about them, or when they are renewed first. */
  holds: LeaseHolds | undefined;
  /** Of a lease that is kept, until its holds are made. */
  keepsLater: LaterHold | undefined;
}
