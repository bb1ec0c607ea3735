import { useId, useState } from "preact/hooks";
import type { EntityNode } from "./entity-tree.ts";
import { Link, Name } from "./parts.tsx";
import { useLoaded, useSession } from "./session.tsx";
import type { Entity, StoredLimits } from "./shapes.ts";
import { storedAt } from "./stored-limits.ts";
import { plural, stampWords, whole } from "./words.ts";

/** What somebody is about to do. */
export type Doing =
  | { readonly what: "create"; readonly parentId: string | undefined }
  | { readonly what: "edit" | "move" | "delete" | "policy"; readonly entity: Entity };

/** Of one parent; the rest on demand. */
const CHILDREN_STEP = 100;
/** Larger families are folded at first. */
const OPEN_MAX = 30;

/** One level of the hierarchy. */
export function EntityList(props: {
  readonly nodes: readonly EntityNode[];
  readonly depth: number;
  readonly isFiltered: boolean;
  readonly onDo: (doing: Doing) => void;
}) {
  const { nodes, depth, isFiltered, onDo } = props;
  const [most, setMost] = useState(CHILDREN_STEP);
  return (
    <ul class={depth === 0 ? "entities" : "entities below"} aria-label={depth === 0 ? "Entities" : undefined}>
      {nodes.slice(0, most).map((node) => (
        <EntityItem key={node.entity.id} {...{ node, depth, isFiltered, onDo }} />
      ))}
      {nodes.length > most && (
        <li class="entity-more">
          <button type="button" class="link-button" onClick={() => setMost(most + CHILDREN_STEP)}>
            Show {whole(Math.min(CHILDREN_STEP, nodes.length - most))} more of {whole(nodes.length - most)}
          </button>
        </li>
      )}
    </ul>
  );
}

function EntityItem(props: {
  readonly node: EntityNode;
  readonly depth: number;
  readonly isFiltered: boolean;
  readonly onDo: (doing: Doing) => void;
}) {
  const { node, depth, isFiltered, onDo } = props;
  const { entity, children } = node;
  const { id, name, parentId, planId, cascade } = entity;
  const [isFolded, setFolded] = useState(children.length > OPEN_MAX);
  const [isOpen, setOpen] = useState(false);
  const panel = useId();
  const showsChildren = children.length > 0 && (isFiltered || !isFolded);
  return (
    <li data-testid="entity-item" data-entity={id} class="entity">
      <div class="entity-line">
        {children.length > 0 ? (
          <button
            type="button"
            class="fold"
            aria-expanded={showsChildren}
            aria-label={`${showsChildren ? "Collapse" : "Expand"} the children of ${id}`}
            onClick={() => setFolded(showsChildren)}
          >
            <span class="chevron" aria-hidden="true" />
          </button>
        ) : (
          <span class="fold" aria-hidden="true" />
        )}
        <button
          type="button"
          class="entity-name"
          data-testid="entity-open"
          aria-expanded={isOpen}
          aria-controls={isOpen ? panel : undefined}
          onClick={() => setOpen(!isOpen)}
        >
          <Name text={id} class="mono strong" />
          {name !== id && <Name text={name} class="quiet" />}
        </button>
        <span class="entity-tags">
          {children.length > 0 && <span class="tag">{plural(children.length, "child", "children")}</span>}
          {planId !== undefined && <span class="tag">plan {planId}</span>}
          {parentId !== undefined && !cascade && <span class="tag warn">parent not charged</span>}
          {parentId !== undefined && depth === 0 && <span class="tag">below {parentId}</span>}
        </span>
      </div>
      {isOpen && (
        <div id={panel}>
          <EntityPanel node={node} onDo={onDo} />
        </div>
      )}
      {showsChildren && <EntityList nodes={children} depth={depth + 1} isFiltered={isFiltered} onDo={onDo} />}
    </li>
  );
}

function EntityPanel({ node, onDo }: { readonly node: EntityNode; readonly onDo: (doing: Doing) => void }) {
  const { api, path, can } = useSession();
  const { entity, children } = node;
  const { id, name, parentId, cascade, metadata, createdAtMs, version } = entity;
  const stored = useLoaded<StoredLimits | undefined>(
    (signal) => storedAt(api, path, { entityId: id }, signal),
    [id, version],
    "beside",
  );
  const facts: [string, string][] = [
    ["Name", name],
    ["Parent", parentId === undefined ? "none" : `${parentId}, ${cascade ? "charged too" : "not charged"}`],
    ["Plan", entity.planId ?? "none"],
    ["Access", stored.value?.access ?? "inherited from the resource"],
    ...Object.entries(metadata).map(([key, text]): [string, string] => [key, text]),
    ["Created", `${stampWords(createdAtMs)}, version ${version}`],
  ];
  return (
    <div class="entity-panel" data-testid="entity-panel">
      <dl class="facts">
        {facts.map(([label, text]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd class="wrap">{text}</dd>
          </div>
        ))}
      </dl>
      <div class="explain-actions">
        <Link page="buckets" params={{ filter: id }} class="button small">
          Buckets
        </Link>
        <Link page="limits" params={{ entity: id }} class="button small">
          Limits
        </Link>
        <Link page="usage" params={{ entity: id }} class="button small">
          Usage
        </Link>
        <Link page="audit" params={{ entity: id }} class="button small">
          Audit
        </Link>
        {can.admin && (
          <>
            <Button testid="entity-add-child" onClick={() => onDo({ what: "create", parentId: id })}>
              New child
            </Button>
            <Button testid="entity-edit" onClick={() => onDo({ what: "edit", entity })}>
              Edit
            </Button>
            <Button testid="entity-move" onClick={() => onDo({ what: "move", entity })}>
              Move
            </Button>
            <Button testid="entity-policy" onClick={() => onDo({ what: "policy", entity })}>
              Access and cascade
            </Button>
            <Button
              testid="entity-delete"
              isDangerous
              isDisabled={children.length > 0}
              onClick={() => onDo({ what: "delete", entity })}
            >
              Delete
            </Button>
          </>
        )}
      </div>
      {can.admin && children.length > 0 && <p class="quiet small">It has children; move or delete them first.</p>}
    </div>
  );
}

function Button(props: {
  readonly testid: string;
  readonly isDangerous?: boolean;
  readonly isDisabled?: boolean;
  readonly onClick: () => void;
  readonly children: string;
}) {
  return (
    <button
      type="button"
      class={props.isDangerous ? "button small danger" : "button small"}
      data-testid={props.testid}
      disabled={props.isDisabled}
      onClick={props.onClick}
    >
      {props.children}
    </button>
  );
}
