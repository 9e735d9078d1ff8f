"""What of Grafana's classic dashboards we write: a JSON Schema that refuses everything else.

Secret kept here: Grafana's words, as its own schema of 11.6 has them (grafana-foundation-sdk), cut
down to what a dashboard of ours may say. Closed everywhere: a key with a typo is found.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
SAID: Json = {"type": "string", "minLength": 1}
NUMBER: Json = {"type": "number"}
COUNT: Json = {"type": "integer", "minimum": 0}
YES_NO: Json = {"type": "boolean"}

COLORS = ("green", "orange", "red", "purple", "blue", "text")
UNITS = (
    "none",
    "short",
    "percentunit",
    "s",
    "bytes",
    "Bps",
    "suffix:/s",
    "dateTimeAsIso",
    "string",
)
CALCS = ("lastNotNull", "max", "sum", "mean", "min", "count")
TRANSFORMATIONS = ("merge", "organize")


def one_of(*values: object) -> Json:
    """Return a schema of a closed set."""
    return {"enum": list(values)}


def exactly(**members: Json) -> Json:
    """Return a schema of an object that has all of these members and no other."""
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def some_of(required: tuple[str, ...] = (), /, **members: Json) -> Json:
    """Return a schema of an object with some of these members."""
    return {**exactly(**members), "required": list(required)}


def many(of: Json, **more: object) -> Json:
    """Return a schema of a list."""
    return {"type": "array", "items": of, **more}


SOURCE = exactly(type=one_of("prometheus"), uid=one_of("${datasource}"))
_LEGEND = {
    "displayMode": one_of("list", "table"),
    "placement": one_of("bottom", "right"),
    "showLegend": YES_NO,
    "calcs": many(one_of(*CALCS)),
}
LEGEND = {
    "anyOf": [
        exactly(**_LEGEND),
        exactly(**_LEGEND, sortBy=one_of("Max"), sortDesc=YES_NO),
    ]
}
REDUCE = exactly(calcs=many(one_of(*CALCS), minItems=1), fields=TEXT, values=YES_NO)
THRESHOLDS = exactly(
    mode=one_of("absolute"),
    steps=many(
        exactly(color=one_of(*COLORS), value={"type": ["number", "null"]}),
        minItems=1,
    ),
)
MAPPING = exactly(
    type=one_of("value"),
    options={
        "type": "object",
        "additionalProperties": exactly(text=SAID, color=one_of(*COLORS), index=COUNT),
    },
)
TARGET = some_of(
    (
        "refId",
        "datasource",
        "editorMode",
        "expr",
        "legendFormat",
        "instant",
        "range",
        "exemplar",
        "format",
    ),
    interval=one_of("1m"),
    refId={"type": "string", "pattern": "^[A-Z]$"},
    datasource=SOURCE,
    editorMode=one_of("code"),
    expr=SAID,
    legendFormat=SAID,
    instant=YES_NO,
    range=YES_NO,
    exemplar=YES_NO,
    format=one_of("time_series", "table", "heatmap"),
)
STACKING = exactly(mode=one_of("none", "normal"), group=TEXT)
HIDE = exactly(legend=YES_NO, tooltip=YES_NO, viz=YES_NO)

#: What a field's own settings are, by the kind of panel.
CUSTOM: dict[str, Json] = {
    "timeseries": some_of(
        ("drawStyle", "lineWidth", "fillOpacity", "showPoints", "stacking", "thresholdsStyle"),
        axisSoftMax=NUMBER,
        scaleDistribution={
            "anyOf": [
                exactly(type=one_of("linear")),
                exactly(type=one_of("log"), log=one_of(2, 10)),
            ]
        },
        drawStyle=one_of("line", "bars"),
        lineInterpolation=one_of("linear"),
        lineWidth=COUNT,
        fillOpacity=COUNT,
        gradientMode=one_of("none"),
        showPoints=one_of("auto", "never"),
        pointSize=COUNT,
        spanNulls=YES_NO,
        axisPlacement=one_of("auto", "right"),
        axisLabel=TEXT,
        stacking=STACKING,
        thresholdsStyle=exactly(mode=one_of("off", "line")),
    ),
    "table": exactly(
        align=one_of("auto"), cellOptions=exactly(type=one_of("auto")), inspect=YES_NO
    ),
    "heatmap": exactly(hideFrom=HIDE, scaleDistribution=exactly(type=one_of("linear"))),
    "state-timeline": exactly(fillOpacity=COUNT, lineWidth=COUNT),
    "stat": exactly(),
    "gauge": exactly(),
    "bargauge": exactly(),
}

STAT = {
    "reduceOptions": REDUCE,
    "orientation": one_of("auto", "horizontal", "vertical"),
    "textMode": one_of("auto", "value_and_name"),
    "colorMode": one_of("background", "value"),
    "graphMode": one_of("none", "area"),
    "justifyMode": one_of("auto", "center"),
    "wideLayout": YES_NO,
    "showPercentChange": YES_NO,
}

#: What the panel's options are, by its kind.
OPTIONS: dict[str, Json] = {
    "timeseries": exactly(
        legend=LEGEND, tooltip=exactly(mode=one_of("multi"), sort=one_of("asc", "desc", "none"))
    ),
    "stat": {
        "anyOf": [
            exactly(**STAT),
            exactly(**STAT, text=exactly(titleSize=COUNT, valueSize=COUNT)),
        ]
    },
    "gauge": exactly(
        reduceOptions=REDUCE,
        orientation=one_of("auto"),
        showThresholdLabels=YES_NO,
        showThresholdMarkers=YES_NO,
        sizing=one_of("auto"),
        minVizWidth=COUNT,
        minVizHeight=COUNT,
    ),
    "bargauge": exactly(
        reduceOptions=REDUCE,
        orientation=one_of("horizontal"),
        displayMode=one_of("basic", "gradient", "lcd"),
        showUnfilled=YES_NO,
        valueMode=one_of("color", "text", "hidden"),
        namePlacement=one_of("auto", "left", "top"),
        sizing=one_of("auto"),
        minVizWidth=COUNT,
        minVizHeight=COUNT,
        maxVizHeight=COUNT,
        legend=LEGEND,
    ),
    "table": exactly(
        showHeader=YES_NO,
        cellHeight=one_of("sm", "md", "lg"),
        frameIndex=COUNT,
        footer=exactly(
            show=YES_NO, reducer=many(one_of(*CALCS)), countRows=YES_NO, fields=many(TEXT)
        ),
    ),
    "heatmap": exactly(
        calculate=YES_NO,
        yAxis=exactly(unit=one_of(*UNITS), axisPlacement=one_of("left"), reverse=YES_NO),
        rowsFrame=exactly(layout=one_of("auto", "le", "ge")),
        color=exactly(
            mode=one_of("scheme", "opacity"),
            scheme=one_of("Oranges"),
            fill=TEXT,
            scale=one_of("exponential", "linear"),
            exponent=NUMBER,
            steps={"type": "integer", "minimum": 2, "maximum": 128},
            reverse=YES_NO,
        ),
        cellGap=COUNT,
        showValue=one_of("auto", "always", "never"),
        legend=exactly(show=YES_NO),
        tooltip=exactly(mode=one_of("single"), yHistogram=YES_NO, showColorScale=YES_NO),
        exemplars=exactly(color=TEXT),
        filterValues=exactly(le=NUMBER),
    ),
    "state-timeline": exactly(
        mergeValues=YES_NO,
        showValue=one_of("auto", "always", "never"),
        alignValue=one_of("left", "center", "right"),
        rowHeight=NUMBER,
        legend=LEGEND,
        tooltip=exactly(mode=one_of("single", "multi"), sort=one_of("none")),
    ),
}

#: What an override may change, and to what.
PROPERTIES: dict[str, Json] = {
    "displayName": SAID,
    "unit": one_of(*UNITS),
    "decimals": COUNT,
    "color": {
        "anyOf": [
            exactly(mode=one_of("thresholds")),
            exactly(mode=one_of("fixed"), fixedColor=one_of(*COLORS)),
        ]
    },
    "thresholds": THRESHOLDS,
    "mappings": many(MAPPING),
    "custom.width": COUNT,
    "custom.cellOptions": exactly(type=one_of("color-text")),
    "custom.lineStyle": exactly(fill=one_of("dash"), dash=many(COUNT)),
    "custom.fillOpacity": COUNT,
    "custom.stacking": STACKING,
    "custom.axisPlacement": one_of("right"),
    "custom.hideFrom": HIDE,
}
MATCHER = {
    "anyOf": [
        exactly(id=one_of("byName", "byRegexp"), options=SAID),
        exactly(
            id=one_of("byValue"),
            options=exactly(reducer=one_of("allIsZero"), op=one_of("gte"), value=COUNT),
        ),
    ]
}
OVERRIDE = exactly(
    matcher=MATCHER,
    properties=many(
        {"anyOf": [exactly(id=one_of(name), value=value) for name, value in PROPERTIES.items()]}
    ),
)
PANEL_LINK = exactly(title=SAID, url=SAID, targetBlank=YES_NO)
GRID = exactly(x=COUNT, y=COUNT, w={**COUNT, "minimum": 1}, h={**COUNT, "minimum": 1})


def panel(kind: str) -> Json:
    """Return the schema of a panel of this kind."""
    defaults = some_of(
        ("unit", "color", "mappings", "thresholds", "custom"),
        unit=one_of(*UNITS),
        color=exactly(mode=one_of("thresholds", "palette-classic")),
        mappings=many(MAPPING),
        thresholds=THRESHOLDS,
        custom=CUSTOM[kind],
        decimals=COUNT,
        min=NUMBER,
        max=NUMBER,
        noValue=SAID,
    )
    members = {
        "id": COUNT,
        "type": one_of(kind),
        "title": SAID,
        "description": SAID,
        "datasource": SOURCE,
        "pluginVersion": TEXT,
        "gridPos": GRID,
        "targets": many(TARGET, minItems=1),
        "fieldConfig": exactly(defaults=defaults, overrides=many(OVERRIDE)),
        "options": OPTIONS[kind],
    }
    arrangement = exactly(id=one_of(*TRANSFORMATIONS), options={"type": "object"})
    extra = {"transformations": many(arrangement), "links": many(PANEL_LINK)}
    return some_of(tuple(members), **members, **extra)


ROW = exactly(
    id=COUNT, type=one_of("row"), title=SAID, collapsed=YES_NO, panels=many({}, maxItems=0),
    gridPos=GRID,
)  # fmt: skip
VARIABLES: Json = {
    "anyOf": [
        exactly(
            type=one_of("datasource"), name=one_of("datasource"), label=SAID,
            query=one_of("prometheus"), regex=TEXT, refresh=one_of(1), hide=one_of(0),
            multi=YES_NO, includeAll=YES_NO, options=many({}, maxItems=0), current=exactly(),
        ),
        exactly(
            type=one_of("query"), name=SAID, label=SAID, datasource=SOURCE, definition=SAID,
            query=exactly(qryType=one_of(1), query=SAID, refId=SAID),
            refresh=one_of(2), sort=one_of(1), hide=one_of(0), regex=TEXT, multi=one_of(True),
            includeAll=one_of(True), allValue=one_of(".+"), options=many({}, maxItems=0),
            current=exactly(selected=YES_NO, text=many(TEXT), value=many(TEXT)),
            skipUrlSync=YES_NO,
        ),
    ]
}  # fmt: skip
ANNOTATIONS: Json = {
    "anyOf": [
        exactly(
            builtIn=one_of(1), datasource=exactly(type=one_of("grafana"), uid=TEXT),
            enable=YES_NO, hide=YES_NO, iconColor=TEXT, name=SAID, type=one_of("dashboard"),
        ),
        exactly(
            name=SAID, datasource=SOURCE, enable=YES_NO, hide=YES_NO, iconColor=TEXT, expr=SAID,
            step=SAID, titleFormat=SAID, textFormat=SAID, tagKeys=TEXT, useValueForTime=YES_NO,
        ),
    ]
}  # fmt: skip
LINK = exactly(
    type=one_of("dashboards", "link"), title=SAID, tags=many(TEXT), asDropdown=YES_NO,
    includeVars=YES_NO, keepTime=YES_NO, targetBlank=YES_NO, icon=one_of("external link", "doc"),
    tooltip=TEXT, url=TEXT,
)  # fmt: skip

DASHBOARD: Json = exactly(
    uid={"type": "string", "pattern": "^[a-z-]{1,40}$"},
    title=SAID,
    description=SAID,
    tags=many(TEXT, minItems=1),
    schemaVersion={"type": "integer", "minimum": 39, "maximum": 41},
    version=COUNT,
    editable=one_of(False),
    graphTooltip=one_of(0, 1, 2),
    refresh=SAID,
    timezone=one_of("browser", "utc"),
    time=exactly(**{"from": SAID, "to": SAID}),
    timepicker=exactly(),
    fiscalYearStartMonth=one_of(0),
    liveNow=YES_NO,
    weekStart=TEXT,
    links=many(LINK),
    annotations=exactly(list=many(ANNOTATIONS)),
    templating=exactly(list=many(VARIABLES)),
    panels=many({"anyOf": [ROW, *(panel(kind) for kind in OPTIONS)]}),
)
