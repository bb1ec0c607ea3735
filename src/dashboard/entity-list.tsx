import { useId, useState } from "preact/hooks";
import type { EntityNode } from "./entity-tree.ts";
import { Button, Facts, Link, LinkButton, Name } from "./parts.tsx";
import { useLoaded, useSession } from "./session.tsx";
import type { Entity } from "./shapes.ts";
import { storedAt } from "./stored-limits.ts";
import { capitalized, plural, stampWords, whole } from "./words.ts";

/** The dialog that is open. */
export type Doing =
  | { readonly what: "create"; readonly parentId: string | undefined }
  | { readonly what: "edit" | "move" | "delete" | "policy"; readonly entity: Entity };

/** The number of children that are shown at first, and of those that are shown on request. */
const CHILDREN_STEP = 100;
/** Larger families are folded at first. */
const OPEN_MAX = 30;

interface ListProps {
  readonly depth: number;
  readonly isFiltered: boolean;
  readonly onDo: (doing: Doing) => void;
}

/** One level of the hierarchy. */
export function EntityList({ nodes, ...rest }: ListProps & { readonly nodes: readonly EntityNode[] }) {
  const { depth } = rest;
  const [most, setMost] = useState(CHILDREN_STEP);
  return (
    <ul class={depth === 0 ? "entities" : "entities below"} aria-label={depth === 0 ? "Entities" : undefined}>
      {nodes.slice(0, most).map((node) => (
        <EntityItem key={node.entity.id} node={node} {...rest} />
      ))}
      {nodes.length > most && (
        <li class="entity-more">
          <LinkButton onClick={() => setMost(most + CHILDREN_STEP)}>
            Show {whole(Math.min(CHILDREN_STEP, nodes.length - most))} more of {whole(nodes.length - most)}
          </LinkButton>
        </li>
      )}
    </ul>
  );
}

function EntityItem({ node, depth, isFiltered, onDo }: ListProps & { readonly node: EntityNode }) {
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
  const stored = useLoaded((signal) => storedAt(api, path, { entityId: id }, signal), [id, version], "beside");
  const dialogs = [
    { testid: "entity-add-child", label: "New child", doing: { what: "create", parentId: id } },
    { testid: "entity-edit", label: "Edit", doing: { what: "edit", entity } },
    { testid: "entity-move", label: "Move", doing: { what: "move", entity } },
    { testid: "entity-policy", label: "Access and cascade", doing: { what: "policy", entity } },
  ] as const;
  return (
    <div class="entity-panel" data-testid="entity-panel">
      <Facts
        facts={[
          ["Name", name],
          ["Parent", parentId === undefined ? "none" : `${parentId}, ${cascade ? "charged too" : "not charged"}`],
          ["Plan", entity.planId ?? "none"],
          ["Access", stored.value?.access ?? "inherited from the resource"],
          ...Object.entries(metadata),
          ["Created", `${stampWords(createdAtMs)}, version ${version}`],
        ]}
      />
      <div class="explain-actions">
        <Link page="buckets" params={{ filter: id }} class="button small">
          Buckets
        </Link>
        {(["limits", "usage", "audit"] as const).map((page) => (
          <Link key={page} page={page} params={{ entity: id }} class="button small">
            {capitalized(page)}
          </Link>
        ))}
        {can.admin &&
          dialogs.map(({ testid, label, doing }) => (
            <Button key={testid} kind="small" testid={testid} onClick={() => onDo(doing)}>
              {label}
            </Button>
          ))}
        {can.admin && (
          <Button
            kind="small danger"
            testid="entity-delete"
            disabled={children.length > 0}
            onClick={() => onDo({ what: "delete", entity })}
          >
            Delete
          </Button>
        )}
      </div>
      {can.admin && children.length > 0 && <p class="quiet small">It has children; move or delete them first.</p>}
    </div>
  );
}
