"""Names that others rely on: values in SQL and JSON, fields of records, members of components."""

from dataclasses import fields
from enum import Enum
from typing import Any

import pytest

from ctxmgr.core.events.event_type import EventType
from ctxmgr.core.objects.compaction import CompactionTrigger
from ctxmgr.errors import Incorrect
from ctxmgr.experience.concepts.graph import ConceptGraph
from ctxmgr.experience.context_window import ContextWindowManager
from ctxmgr.experience.documents.document import DocumentType
from ctxmgr.experience.documents.repository import DocumentRepository
from ctxmgr.experience.log.log import ExperienceLog
from ctxmgr.experience.records.annotations import Comment, Tag, TagApplication, choose_target
from ctxmgr.experience.records.kinds import (
    BudStatus,
    CompressionLevel,
    Fidelity,
    TagSource,
    TagType,
    TargetType,
)
from ctxmgr.experience.tags.index import TagIndex
from ctxmgr.experience.windows.compression import CompressedRecord, compress_records
from ctxmgr.experience.windows.storage_manager import StorageManager
from ctxmgr.experience.windows.time_windows import TimeWindow
from ctxmgr.experience.xdb import XDB


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (EventType, "input output tool_call tool_response steering system"),
        (TagType, "concept entity bud custom"),
        (BudStatus, "collecting ready training promoted abandoned"),
        (TargetType, "timestep event range"),
        (TagSource, "auto manual inherited"),
        (Fidelity, "hot warm submitted cold"),
        (CompactionTrigger, "context_full manual scheduled storage_pressure"),
        (
            DocumentType,
            "system_instruction tool_documentation tribal_policy specification reference",
        ),
    ],
)
def test_enumerations_have_these_values(kind: type[Enum], values: str) -> None:
    """000-R012 to R017, 000-R020, 000-R021: they are stored, so none may change."""
    assert {member.value for member in kind} == set(values.split())


def test_levels_are_numbered_from_the_finest() -> None:
    """000-R018: the numbers are stored."""
    names = ["TOKEN", "REPLY", "SESSION", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"]

    assert [(level.name, level.value) for level in CompressionLevel] == [
        (name, number) for number, name in enumerate(names)
    ]


TARGET = "session_id target_type timestep_id event_id range_start range_end"
TIMES = "start_time end_time start_tick end_tick"
COLD = "summary top_k_activations significant_tags source_record_ids token_count"


@pytest.mark.parametrize(
    ("record", "names"),
    [
        (Tag, "id name tag_type concept_id entity_type bud_status created_at created_by"),
        (Tag, "description"),
        (TagApplication, f"id tag_id {TARGET} confidence source created_at note"),
        (Comment, f"id {TARGET} content created_at updated_at"),
        (TimeWindow, f"id session_id {TIMES} fidelity compression_level pinned pinned_reason"),
        (TimeWindow, f"submission_ids {COLD}"),
        (CompressedRecord, f"id level {TIMES} {COLD} record_count"),
    ],
)
def test_records_have_these_fields(record: Any, names: str) -> None:
    """000-R035 to R041, 000-R043 to R054: under the names of the source design."""
    assert set(names.split()) <= {each.name for each in fields(record)}


@pytest.mark.parametrize("confidence", [-0.01, 1.01, float("nan")])
def test_a_confidence_is_a_share(confidence: float) -> None:
    """000-R042: from 0 to 1."""
    target = choose_target("s1", event_id="e1").fields()

    with pytest.raises(Incorrect, match="between 0 and 1"):
        TagApplication(id="ta-1", tag_id="t", created_at=0, confidence=confidence, **target)


@pytest.mark.parametrize(
    ("component", "members"),
    [
        (ExperienceLog, "record_timestep get_timestep query add_tag add_comment"),
        (ExperienceLog, "get_tags_for_timestep get_comments_for_range"),
        (TagIndex, "create_tag get_tag find_tags get_concept_children get_concept_parents"),
        (TagIndex, "get_related_concepts promote_to_bud get_bud_examples update_bud_status"),
        (ConceptGraph, "children parents related"),
        (DocumentRepository, "add_document get_document get_by_path search update_document"),
        (DocumentRepository, "list_by_type"),
        (ContextWindowManager, "add_tokens generate_summary get_context_state"),
        (StorageManager, "check_and_compress get_current_usage"),
        (XDB, "start_session end_session record tag recall comment get_state"),
    ],
)
def test_components_have_these_members(component: type, members: str) -> None:
    """000-R214, 000-R215: programs call them by name."""
    assert [name for name in members.split() if not hasattr(component, name)] == []
    assert callable(compress_records)
