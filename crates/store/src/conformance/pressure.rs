//! S12, S15: a store with room says so, and so does one that works. That it speaks up in time when
//! there is no room left, or when it has failed, can only be shown with a small or a broken disk:
//! engines do that in tests of their own.

use super::build::{job, jobs, put, put_all, succeeded};
use super::fixture::Fixture;
use super::table;
use crate::Pressure;

table! { "pressure":
    S12 nothing an_empty_store_has_room;
    S12 nothing ordinary_work_leaves_room;
    S15 nothing a_store_that_works_says_so;
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

async fn a_store_that_works_says_so(mut fixture: Fixture) {
    assert!(fixture.store().health().is_ok());
    fixture.commit(vec![put(&job(1))]).await;
    assert!(fixture.store().health().is_ok());
}
