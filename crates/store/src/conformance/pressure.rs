//! S12: a store with room says so. That it speaks up in time when there is none left can only be
//! shown with a small disk or quota: engines do that in tests of their own.

use super::build::{job, jobs, put, put_all, succeeded};
use super::fixture::Fixture;
use super::table;
use crate::Pressure;

table! { "pressure":
    S12 nothing an_empty_store_has_room;
    S12 nothing ordinary_work_leaves_room;
}

async fn an_empty_store_has_room(fixture: Fixture) {
    assert_eq!(fixture.store().pressure(), Pressure::Normal);
}

async fn ordinary_work_leaves_room(mut fixture: Fixture) {
    let all = jobs(1, 500);
    fixture.commit(put_all(&all)).await;
    fixture.commit(all.iter().map(succeeded).collect()).await;
    assert_eq!(fixture.store().pressure(), Pressure::Normal);
    fixture.commit(vec![put(&job(501))]).await;
}
